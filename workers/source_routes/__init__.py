"""Source-routed messages and this router's route workers (docs/source-routes.md)."""
