"""Messages of source routes, taken through the route workers of this router."""
