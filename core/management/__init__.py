"""The management agent: it answers AMQP requests to `$management` in a thread of the core process."""
