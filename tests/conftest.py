"""What holds for every test."""

from hypothesis import settings

# A busy machine is no counterexample.
settings.register_profile("routerd", deadline=None)
settings.load_profile("routerd")
