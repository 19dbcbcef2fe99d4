"""Links that are stuck: which they are, and which of them hold the others up."""

from typing import Any

WAITED = 10  # seconds after which a delivery, or a link without credit, counts as stuck


def is_stuck(row: dict[str, Any]) -> bool:
    """Whether a link has deliveries that nobody settles, or that find no credit."""
    waits = row.get("linkDir") == "out" and row.get("zeroCreditSeconds", 0) > WAITED
    return bool(row.get("deliveriesStuck", 0) or waits)


def blamed(row: dict[str, Any], holder: str | None) -> str:
    """Return what is wrong with a stuck link: it holds others up, or waits for the link with the number ``holder``."""
    if row.get("linkDir") == "in":
        return f"waits for {holder}" if holder else "waits"
    if row.get("zeroCreditSeconds", 0) > WAITED and not row.get("unsettledCount", 0):
        return "gives no credit"
    return "does not settle"
