"""Rules of the tracing entity."""

from collections.abc import Iterator
from importlib.util import find_spec
from urllib.parse import urlsplit

from routerd.config.entities.tracing import Tracing
from routerd.config.formats.source import Mistake, shown
from routerd.config.rules.check import Checked, each


def check_tracing(checked: list[Checked]) -> Iterator[Mistake]:
    """Yield mistakes in the tracing entity."""
    for at, tracing in each(checked, Tracing):
        if find_spec("opentelemetry") is None:
            yield at.mistake(
                "",
                "spans are sent with opentelemetry, which is not installed: on Debian install routerd-tracing, "
                "elsewhere give pip 'routerd[tracing]'",
            )
        if "@" in tracing.endpoint.partition("://")[2].partition("/")[0]:
            yield at.mistake("endpoint", "names a user, and none is sent; remove what stands before the @")
        elif not _is_url(tracing.endpoint):
            yield at.mistake(
                "endpoint",
                f"{shown(tracing.endpoint)} is no URL of HTTP; give one such as http://127.0.0.1:4318/v1/traces",
            )


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        named = (parts.hostname or "").encode("idna")
        within = parts.path + parts.query
        fit = within.isascii() and " " not in within
        return parts.scheme in ("http", "https") and bool(named) and fit and parts.port != 0
    except ValueError:  # a port that is no number, an address in brackets that is none, a name with a dot too many
        return False
