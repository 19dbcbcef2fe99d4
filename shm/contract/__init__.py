"""Messages between the router's processes, and facts that several processes share."""
