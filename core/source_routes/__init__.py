"""Route workers as the core knows them."""
