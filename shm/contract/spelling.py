"""The spellings of one address, which mean the same everywhere (docs/addresses.md)."""


def strip_spelling(text: str) -> str:
    """Return an address without scheme, authority or leading slash and without one trailing separator."""
    if text.startswith("amqp://"):
        text = text[len("amqp://") :].partition("/")[2]
    elif text.startswith("amqp:/"):
        text = text[len("amqp:/") :]
    else:
        text = text.removeprefix("/")
    return text[:-1] if text.endswith((".", "/")) else text
