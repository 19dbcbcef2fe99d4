"""The management agent: AMQP requests to `$management`, answered in a thread of the core process."""
