"""Source routes: a message carries the addresses still to visit and those that a reply would visit."""
