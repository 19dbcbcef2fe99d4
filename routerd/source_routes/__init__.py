"""Source routes (docs/source-routes.md): a message carries its onward route and its return route."""
