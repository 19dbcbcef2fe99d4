"""Links that are stuck: which they are, and which of them hold the others up."""

import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

from routerd.cli.client import Client, RefusedError

LINK: Final = "router.link"
WINDOW_SHUT: Final = "windowShut"
SHUT_SECONDS = 1.0  # between two looks at windows
WAITED = 10  # seconds after which a delivery, or a link without credit, counts as stuck


def is_stuck(row: dict[str, Any]) -> bool:
    """Whether a link has deliveries that nobody settles or that find no credit, or stands at its session's window."""
    waits = row.get("linkDir") == "out" and row.get("zeroCreditSeconds", 0) > WAITED
    return bool(row.get("deliveriesStuck", 0) or waits or row.get("stands"))


def blamed(row: dict[str, Any], holder: str | None) -> str:
    """Return what is wrong with a stuck link: it holds others up, or waits for the link with the number ``holder``."""
    if row.get("linkDir") == "in" and not row.get("deliveriesStuck", 0):
        return "its session's window is full"
    if row.get("linkDir") == "in":
        return f"waits for {holder}" if holder else "waits"
    if row.get("zeroCreditSeconds", 0) > WAITED and not row.get("unsettledCount", 0):
        return "gives no credit"
    if row.get("stands"):
        return "its session takes no more"
    return "does not settle"


def explain(client: Client, rows: list[dict[str, Any]]) -> None:
    """Add why links are stuck: ``why`` in words, ``waitsFor`` as the number of another link of their router.

    ``stands`` is added to links whose session's window holds them up, at two looks: for a moment it may be shut.
    """
    known: dict[str, dict[str, Any]] = {}
    standing: set[str] = set()
    with suppress(RefusedError):  # a router of another kind has no such attributes
        known = {row["identity"]: row for row in client.query(LINK, ["identity", "waitsFor", WINDOW_SHUT])}
        standing = _shut(known.values())
        if standing:
            time.sleep(SHUT_SECONDS)
            standing &= _shut(client.query(LINK, ["identity", WINDOW_SHUT]))
    for row in rows:
        holder = known.get(row["identity"], {}).get("waitsFor")
        if row["identity"] in standing:
            row["stands"] = True
        if is_stuck(row):
            row["why"] = blamed(row, holder)
        if holder is not None:
            row["waitsFor"] = holder


def _shut(rows: Iterable[dict[str, Any]]) -> set[str]:
    return {row["identity"] for row in rows if row.get(WINDOW_SHUT)}
