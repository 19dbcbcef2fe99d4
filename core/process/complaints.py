"""Complaints about what comes from other routers: one line per speaker, kind and minute."""

import logging
from typing import Final

PERIOD: Final = 60.0
# More neighbours times kinds than any network has; beyond it the oldest are forgotten.
MOST_KINDS: Final = 1024


class Complaints:
    """Says a thing once and then counts it until the minute is over."""

    def __init__(self) -> None:
        self._said: dict[tuple[str, str], tuple[float, int]] = {}

    def say(
        self, logger: logging.Logger, level: int, who: str, what: str, now: float, detail: str = ""
    ) -> None:
        """Log ``what`` about ``who``, unless that was done less than a minute ago, whatever the detail."""
        key = (who, what)
        since, suppressed = self._said.get(key, (float("-inf"), 0))
        if now - since < PERIOD:
            self._said[key] = (since, suppressed + 1)
            return
        if len(self._said) >= MOST_KINDS:
            del self._said[next(iter(self._said))]
        self._said.pop(key, None)
        self._said[key] = (now, 0)
        logger.log(
            level, "%s %s%s%s", who, what, detail, f" ({suppressed} more in between)" if suppressed else ""
        )
