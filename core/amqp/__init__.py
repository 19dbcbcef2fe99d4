"""The codec of AMQP values in Python."""
