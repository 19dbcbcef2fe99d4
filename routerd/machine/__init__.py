"""What the machine and its service manager give the router: processors, memory, descriptors, sockets."""
