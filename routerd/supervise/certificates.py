"""Reports in time, in the log and as a metric, when the router's own certificates expire."""

import logging
import time
from collections.abc import Callable, Sequence

from routerd.config.entities.transport import SslProfile
from routerd.config.validity import expiry_of, outlook
from routerd.log.log import event
from shm.contract.complaints import Complaints

POLL_SECONDS = 60.0
REPEAT_SECONDS = 24 * 3600.0  # between two log lines about one certificate

LOGGER = logging.getLogger("SERVER")


class Certificates:
    """The certificates of all sslProfiles.

    ``report`` gets the time when the first one expires, in seconds since 1970; 0: there is none.
    """

    def __init__(self, report: Callable[[int], None], wall: Callable[[], float] = time.time) -> None:
        self._report = report
        self._wall = wall
        self._files: dict[str, str] = {}  # by profile
        self._due = float("-inf")
        self._complaints = Complaints(REPEAT_SECONDS)

    def set(self, profiles: Sequence[SslProfile]) -> None:
        """Watch the certificates of these profiles from now on."""
        self._files = {one.name or "": one.cert_file for one in profiles if one.cert_file}
        self._due = float("-inf")

    def poll(self, now: float) -> None:
        """Report once a minute what has expired or soon will. ``now`` is of a monotonic clock."""
        if now < self._due:
            return
        self._due = now + POLL_SECONDS
        found: list[float] = []
        for profile, file in self._files.items():
            try:
                ends = expiry_of(file)
            except (OSError, ValueError):  # the process that uses the file reports what is wrong
                continue
            found.append(ends)
            self._tell(profile, file, ends, now)
        self._report(max(1, int(min(found))) if found else 0)  # one may have expired before 1970

    def _tell(self, profile: str, file: str, ends: float, now: float) -> None:
        said, expired = outlook(ends, self._wall())
        if not said or self._complaints.due(now, (file, ends)) is None:
            return
        date = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(ends))
        text = f"sslProfile {profile}: its certificate {said}; renew it: a changed file is used at once"
        if expired:
            event(LOGGER, logging.ERROR, text, file=file, expired=date)
        else:
            event(LOGGER, logging.WARNING, text, file=file, expires=date)
