"""Native code only: the AMQP sessions, links and deliveries of a connection (session.h)."""
