"""What the management agents of all routers are called, as the laxest of them reads an address."""

import re
from typing import Final

AGENT: Final = "_local/$management"
# Some routers have a second agent, for themselves, beside the one for everybody.
_NAMES: Final = r"(\$management|\$_management_internal|agent)"
_AGENTS: Final = re.compile(
    rf"(_local/|_topo/[^/]*/[^/]*/|_edge/[^/]*/){_NAMES}|\$management|\$_management_internal"
)
# By their first token: addresses of routers, those that they make up, and all with a dollar in front but the
# one that stands for a broker's transaction coordinator.
_OWN: Final = re.compile(r"(_local|_topo|_edge)([./]|$)|_\$|\$(?!coordinator([./]|$))")
_OURS: Final = re.compile(rf"_local/{_NAMES}|\$management")


def plain(text: str) -> str:
    """An address without any spelling that some router may leave out."""
    if text.startswith("amqp://"):
        text = text.removeprefix("amqp://").partition("/")[2]
    return text.removeprefix("amqp:").strip("/.")


def is_agent(text: str) -> bool:
    """Whether the management agent of a router is called so."""
    return _AGENTS.fullmatch(plain(text)) is not None


def is_own(text: str) -> bool:
    """Whether an address, or every address of a pattern, is a router's own: no link route takes it away."""
    return _OWN.match(plain(text)) is not None


def is_foreign(text: str, area: str, router: str) -> bool:
    """Whether an agent's address is that of another router than this one, or of all."""
    text = plain(text)
    for mine in (f"_topo/{area}/{router}/", f"_topo/all/{router}/", f"_edge/{router}/"):
        text = text.replace(mine, "_local/", 1) if text.startswith(mine) else text
    return _OURS.fullmatch(text) is None
