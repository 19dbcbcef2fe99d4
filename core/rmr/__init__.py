"""Route tables: message type, subscription id and managed entity (docs/route-tables.md)."""
