"""When certificates of sslProfiles expire, and who may warn of it.

`expiry` reads a file's DER up to the validity (RFC 5280, 4.1), because the standard library reads that of a
peer's certificate only.
"""

import base64
import calendar
import time
from collections.abc import Iterable, Iterator
from typing import Final

from routerd.config.entities.transport import SslProfile
from routerd.config.formats.source import Mistake, octets
from routerd.config.rules.check import Checked
from shm.contract.numbers import remaining

SOON_SECONDS: Final = 30 * 24 * 3600.0

_INTEGER, _VERSION = 0x02, 0xA0
_UTC_TIME, _GENERALIZED_TIME = 0x17, 0x18
_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"


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


def expiry_of(file: str) -> float:
    """Return when the certificate in a file ends, as `expiry` does. Raises OSError, too."""
    return expiry(octets(file).decode("ascii", "replace"))


def outlook(ends: float, now: float) -> tuple[str, bool]:
    """Return what a certificate that ends at a time does, in words, and whether it has expired.

    The words are empty for one that is valid for long. Times are in seconds since 1970.
    """
    if ends <= now:
        return "has expired, so peers refuse the router", True
    return (f"expires in {remaining(ends - now)}", False) if ends - now < SOON_SECONDS else ("", False)


def expiring(checked: Iterable[Checked], now: float) -> Iterator[Mistake]:
    """Yield a warning for each certificate that has expired or soon will. ``now`` is in seconds since 1970."""
    for at in checked:
        if not isinstance(at.entity, SslProfile) or not at.entity.cert_file:
            continue
        file = at.entity.cert_file
        try:
            said, _ = outlook(expiry_of(file), now)
        except (OSError, ValueError):  # other rules tell what is wrong with it
            continue
        if said:
            yield at.mistake("certFile", f"the certificate in {file} {said}; renew it", warning=True)
