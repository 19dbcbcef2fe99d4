"""The addresses of management agents, compared in the most lenient form that any router accepts."""

import re
from typing import Final

AGENT: Final = "_local/$management"
# Some routers have a second agent for their own use.
_NAMES: Final = r"(\$management|\$_management_internal|agent)"
_AGENTS: Final = re.compile(rf"(_local/|_topo/[^/]*/[^/]*/|_edge/[^/]*/){_NAMES}|\$management|\$_management_internal")
# Addresses of routers, generated addresses, and all that begin with a dollar sign except the one that
# stands for a transaction coordinator.
_OWN: Final = re.compile(r"(_local|_topo|_edge)([./]|$)|_\$|\$(?!coordinator([./]|$))")
_OURS: Final = re.compile(rf"_local/{_NAMES}|\$management")


def plain(text: str) -> str:
    """Return an address without any prefix or suffix that some router ignores."""
    if text.startswith("amqp://"):
        text = text.removeprefix("amqp://").partition("/")[2]
    return text.removeprefix("amqp:").strip("/.")


def is_agent(text: str) -> bool:
    """Whether an address is that of a router's management agent."""
    return _AGENTS.fullmatch(plain(text)) is not None


def is_own(text: str) -> bool:
    """Whether an address or pattern concerns only a router's own addresses, which no link route takes."""
    return _OWN.match(plain(text)) is not None


def is_foreign(text: str, area: str, router: str) -> bool:
    """Whether an agent's address is that of another router, or of all routers."""
    text = plain(text)
    for mine in (f"_topo/{area}/{router}/", f"_topo/all/{router}/", f"_edge/{router}/"):
        text = text.replace(mine, "_local/", 1) if text.startswith(mine) else text
    return _OURS.fullmatch(text) is None
