"""The worker processes: connections, and the native pump that drives them."""
