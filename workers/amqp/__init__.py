"""AMQP messages between the engine and shared memory."""
