"""Parts of the route-table plane without a router, with stand-ins around them."""
