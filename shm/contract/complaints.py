"""A rate limit for log lines that peers can cause."""

import logging
from collections.abc import Hashable
from typing import Final

MINUTE: Final = 60.0
LINE_SECONDS: Final = 1.0  # average interval of lines of one kind, each about another thing that a peer has done
LINE_BURST: Final = 50  # such lines in a row
MOST_KEYS: Final = 1024  # exceeds the product of neighbours and kinds of line in any network


class _Lines:
    """The lines of one key: when in seconds a whole burst of them may come again, and the number swallowed."""

    def __init__(self) -> None:
        self.rested = float("-inf")
        self.swallowed = 0


class Complaints:
    """Limits each key to ``burst`` lines in a row, and then to one line in ``seconds``.

    The next line tells how many lines were swallowed. `MOST_KEYS` keys have a limit of their own, all others
    share one: a peer that makes up names delays lines about new keys only. Callers pass the time, in seconds.
    """

    def __init__(self, seconds: float = MINUTE, burst: int = 1) -> None:
        self._seconds = seconds
        self._ahead = seconds * (burst - 1)
        self._keys: dict[Hashable, _Lines] = {}  # in the order of their last lines

    def __len__(self) -> int:
        return len(self._keys)

    def tell(
        self,
        now: float,
        logger: logging.Logger,
        level: int,
        text: str,
        *what: object,
        key: Hashable = None,
        error: BaseException | None = None,
    ) -> None:
        """Log a line with the traceback of ``error``; a line over its key's limit gets level debug.

        ``key`` defaults to ``text``, the line without its arguments ``what``.
        """
        swallowed = self.due(now, text if key is None else key)
        if swallowed is None:
            logger.debug(text, *what, stacklevel=2)
            return
        more = f" (and {swallowed} more since the last such line)" if swallowed else ""
        logger.log(level, text + "%s", *what, more, exc_info=error, stacklevel=2)

    def due(self, now: float, key: Hashable) -> int | None:
        """Return how many lines of a key were swallowed since its last one; None: swallow this one, too."""
        if key not in self._keys and len(self._keys) >= MOST_KEYS:
            oldest = next(iter(self._keys))
            if self._keys[oldest].rested <= now:
                del self._keys[oldest]
            else:
                key = None
        lines = self._keys.get(key) or _Lines()
        if lines.rested - now > self._ahead:
            lines.swallowed += 1
            return None
        lines.rested = max(lines.rested, now) + self._seconds
        self._keys.pop(key, None)
        self._keys[key] = lines
        swallowed, lines.swallowed = lines.swallowed, 0
        return swallowed


def bursts() -> Complaints:
    """Return a limit for lines that tell which peer did what: `LINE_BURST` in a row, then one in `LINE_SECONDS`."""
    return Complaints(LINE_SECONDS, LINE_BURST)
