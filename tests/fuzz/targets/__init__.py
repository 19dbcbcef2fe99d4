"""The fuzzing targets, one file each; tests/fuzz/catalogue.py lists them."""
