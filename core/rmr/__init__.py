"""Route tables: message type, subscription and managed entity (spec rmr-route-tables)."""
