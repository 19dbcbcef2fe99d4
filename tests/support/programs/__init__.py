"""What tests start as processes of their own, by path."""
