"""Control messages of RMR: this router as Route Manager of applications and as application of Route Managers."""
