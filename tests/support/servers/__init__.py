"""What a router connects to or asks: brokers, an authentication service, a Prometheus."""
