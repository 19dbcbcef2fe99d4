"""Messages between the router's processes, and knowledge that several processes share."""
