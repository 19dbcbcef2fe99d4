"""Entities and attributes that this version reads and does not support.

These are warnings: the router starts and says what it leaves out.
"""

from collections.abc import Iterator

from routerd.config.entities.router import Router
from routerd.config.formats.source import Mistake
from routerd.config.rules.check import Checked

NOT_YET = "is not supported by this version"

# Entities without effect. An unused sslProfile has none either, but needs no warning.
UNSERVED_ENTITIES = {"console": "use a current management tool"}

# Attributes without effect, if they differ from their default.
UNSERVED_ATTRIBUTES: dict[type, dict[str, str]] = {
    Router: {
        "timestampFormat": "log times are written as 2026-11-21 06:34:17.123456 +0000",
        "timestampsInUTC": "set TZ=UTC in the environment instead",
        "debugDumpFile": "nothing is written to it",
    }
}


def check_support(checked: list[Checked]) -> Iterator[Mistake]:
    """Yield warnings about what this version does not support."""
    for at in checked:
        if effect := UNSERVED_ENTITIES.get(at.type.name):
            yield at.mistake("", f"{NOT_YET}; {effect}", warning=True)
        for name, effect in UNSERVED_ATTRIBUTES.get(type(at.entity), {}).items():
            if name in at.lines and at.value(name) != at.type.attributes[name].default:
                yield at.mistake(name, f"{NOT_YET}; {effect}", warning=True)
