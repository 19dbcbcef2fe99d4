"""Parts of the router without its processes, with stand-ins around them."""
