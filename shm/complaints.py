"""Lines of the log about peers that misbehave: each with its address and why, but a flood with few lines."""

import logging


class Complaints:
    """Of one kind: ``text`` has places for the peer and for what else is told. At its level there is one
    line in ``seconds``, the others are of level debug. Time is an argument."""

    def __init__(self, logger: logging.Logger, text: str, seconds: float, level: int = logging.INFO) -> None:
        self._level = level
        self._logger = logger
        self._text = text
        self._seconds = seconds
        self._last = float("-inf")
        self._untold = 0

    def tell(self, now: float, *what: str) -> None:
        """A line; counters count them all."""
        if now - self._last < self._seconds:
            self._untold += 1
            self._logger.debug(self._text, *what)
            return
        more = f" (and {self._untold} others since the last such line)" if self._untold else ""
        self._last, self._untold = now, 0
        self._logger.log(self._level, self._text + "%s", *what, more)
