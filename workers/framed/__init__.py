"""Connections of protocols that frame messages without AMQP."""
