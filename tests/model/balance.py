"""The balance of a core's counters: each delivery, and each copy of one, ends in exactly one of them."""

from shm.statistics.stats import COPIES, ENDED, RECEIVED


def unbalanced(page: dict[str, int]) -> dict[str, int]:
    """Return the sums of a core's numbers that differ; none may when nothing is on its way."""

    def total(names: tuple[str, ...]) -> int:
        return sum(page[name] for name in names)

    pairs = {
        "received": (page["received"], total(RECEIVED)),
        "ended": (total(RECEIVED), total(ENDED)),
        "forwarded": (page["forwarded"], total(COPIES)),
    }
    return {name: one - other for name, (one, other) in pairs.items() if one != other}
