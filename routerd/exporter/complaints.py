"""Who was refused over HTTP, in the log: each with its address and why, but a flood with few lines."""

import logging

TELL_SECONDS = 1.0  # between two lines; the counter counts them all

LOGGER = logging.getLogger("HTTP")


class Complaints:
    """Time is an argument."""

    def __init__(self) -> None:
        self._last = float("-inf")
        self._untold = 0

    def tell(self, peer: str, why: str, now: float) -> None:
        """A line, unless there was one just now."""
        if now - self._last < TELL_SECONDS:
            self._untold += 1
            return
        more = f" (and {self._untold} others since the last such line)" if self._untold else ""
        self._last, self._untold = now, 0
        LOGGER.info("HTTP client %s refused: %s%s", peer, why, more)
