"""The core's part of the flow log: its records, and the names in them."""
