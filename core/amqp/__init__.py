"""AMQP encoding and decoding in Python."""
