"""Lines of the log about peers that misbehave: each with its address and why, but a flood with few lines."""

import logging
from collections import deque


class Complaints:
    """Of one kind: ``text`` has places for the peer and for what else is told. At its level there is one
    line in ``seconds`` on average, at most ``burst`` of them in a row; the others are of level debug. Time is
    an argument."""

    def __init__(
        self,
        logger: logging.Logger,
        text: str,
        seconds: float,
        level: int = logging.INFO,
        burst: int = 1,
    ) -> None:
        self._level = level
        self._logger = logger
        self._text = text
        self._span = seconds * burst
        self._told: deque[float] = deque([float("-inf")] * burst, burst)  # when the last lines were
        self._untold = 0

    def tell(self, now: float, *what: str) -> None:
        """A line; counters count them all."""
        if now - self._told[0] < self._span:
            self._untold += 1
            self._logger.debug(self._text, *what)
            return
        more = f" (and {self._untold} others since the last such line)" if self._untold else ""
        self._told.append(now)
        self._untold = 0
        self._logger.log(self._level, self._text + "%s", *what, more)
