"""routerd: the supervisor that puts the processes of a router together."""
