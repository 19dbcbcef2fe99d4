"""What processes say to each other, and what several of them may know."""
