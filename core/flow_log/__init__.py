"""What the core tells the flow log."""
