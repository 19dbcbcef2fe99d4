"""What a configuration is told to be wrong."""

from routerd.config import ConfigError, parse


def told(text: str) -> list[str]:
    """Mistakes and warnings of a .conf text, without the name of the file."""
    try:
        found = parse(text, "f.conf").warnings
    except ConfigError as error:
        found = error.mistakes
    return [str(mistake).removeprefix("f.conf:") for mistake in found]
