"""Edge routers: one connection to an interior router stands for everything beyond it."""
