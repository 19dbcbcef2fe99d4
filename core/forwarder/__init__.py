"""The native forwarder: tables, deliveries, credit, settlement."""
