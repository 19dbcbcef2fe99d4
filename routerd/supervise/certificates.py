"""Reports in time, in the log and as a metric, when the router's own certificates expire.

`expiry` reads a file's DER up to the validity (RFC 5280, 4.1), because the standard library reads that of a
peer's certificate only.
"""

import base64
import calendar
import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from routerd.config.entities.transport import SslProfile
from routerd.log.log import event
from shm.contract.complaints import Complaints

POLL_SECONDS = 60.0
REPEAT_SECONDS = 24 * 3600.0  # between two log lines about one certificate
SOON_SECONDS = 30 * 24 * 3600.0

_SEQUENCE, _INTEGER, _VERSION = 0x30, 0x02, 0xA0
_UTC_TIME, _GENERALIZED_TIME = 0x17, 0x18
_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"

LOGGER = logging.getLogger("SERVER")


def expiry(pem: str) -> float:
    """Return when the first certificate of a PEM file expires, in seconds since 1970. Raises ValueError."""
    begin, end = pem.find(_BEGIN), pem.find(_END)
    if begin < 0 or end < begin:
        raise ValueError("it contains no certificate")
    try:
        der = base64.b64decode(pem[begin + len(_BEGIN) : end])
        _, certificate, _ = _element(der)
        _, fields, _ = _element(certificate)
        while fields[0] in (_VERSION, _INTEGER):  # version and serial number
            _, _, fields = _element(fields)
        for _ in range(2):  # signature algorithm, issuer
            _, _, fields = _element(fields)
        _, validity, _ = _element(fields)
        _, _, rest = _element(validity)
        kind, text, _ = _element(rest)
    except IndexError:
        raise ValueError("its certificate is cut off") from None
    formats = {_UTC_TIME: "%y%m%d%H%M%SZ", _GENERALIZED_TIME: "%Y%m%d%H%M%SZ"}
    if kind not in formats:
        raise ValueError("its certificate has no end of validity")
    return float(calendar.timegm(time.strptime(text.decode("ascii", "replace"), formats[kind])))


def _element(der: bytes) -> tuple[int, bytes, bytes]:
    """Return tag and content of the first element, and what follows it. Raises IndexError."""
    tag, length, at = der[0], der[1], 2
    if length & 0x80:
        at += length & 0x7F
        length = int.from_bytes(der[2:at], "big")
    if len(der) < at + length:
        raise IndexError
    return tag, der[at : at + length], der[at + length :]


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
                ends = expiry(Path(file).read_text(encoding="ascii", errors="replace"))
            except (OSError, ValueError):  # the process that uses the file reports what is wrong
                continue
            found.append(ends)
            if ends - self._wall() < SOON_SECONDS:
                self._tell(profile, file, ends, now)
        self._report(int(min(found, default=0)))

    def _tell(self, profile: str, file: str, ends: float, now: float) -> None:
        if self._complaints.due(now, (file, ends)) is None:
            return
        date = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(ends))
        left = ends - self._wall()
        renew = "renew it: a changed file is used at once"
        if left <= 0:
            text = f"sslProfile {profile}: its certificate has expired, so peers refuse the router; {renew}"
            event(LOGGER, logging.ERROR, text, file=file, expired=date)
        else:
            text = f"sslProfile {profile}: its certificate expires in {left / 86400:.1f} days; {renew}"
            event(LOGGER, logging.WARNING, text, file=file, expires=date)
