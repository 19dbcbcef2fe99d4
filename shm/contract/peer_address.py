"""Has a peer's certificate verified by the IP address that was dialled, too (iPAddress, RFC 5280 4.2.1.6), and notes
when one that is refused expired.

Proton compares the host of a connection with a certificate's host names and common names alone, and has no function for
addresses. So a function of this module stands before the one by which Proton verifies: OpenSSL calls it for each
certificate of the chain (SSL_CTX_set_verify(3)), and what it refuses fails the handshake, before anybody logs in.
OpenSSL's context is the first member of Proton's `pn_ssl_domain_t`, as of the version that `PROTON` names. Proton gives
OpenSSL the host as server name (SNI), also where it is an address, so one function serves all connections. It is called
for what OpenSSL refuses, too. Proton's error says no more than that the verification has failed.
"""

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

PROTON: Final = (0, 40)
_VERIFIES: Final = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p)
_HOST: Final = 0  # TLSEXT_NAMETYPE_host_name
_NOT_YET_VALID: Final = 9  # X509_V_ERR_CERT_NOT_YET_VALID
_TM_INTS: Final = 16  # at least: a `struct tm` has 56 octets here (time.h), first seconds to years as ints
_EXPIRED: Final = 10  # X509_V_ERR_CERT_HAS_EXPIRED
_MOST_REFUSALS: Final = 64  # kept: of hosts, the newest

_refusals: dict[str, str] = {}  # by the host dialled: what its certificate, or one above it, is not valid for


def watch_peers(domain: int) -> None:
    """Have a certificate accepted that has the address dialled, besides those that ``domain`` accepts by their names.

    ``domain`` is the place of a `pn_ssl_domain_t` in memory, a client's, whose peer authentication is set. What it
    refuses for its time `out_of_time` tells. This is a no-op if this engine has no way to.
    """
    if found := _openssl():
        context, verify = found
        context(ctypes.c_void_p.from_address(domain), verify)


def out_of_time(host: str) -> str:
    """Return once how the certificate of a host's last connection was out of its time; "" if it was not."""
    return _refusals.pop(host, "")


def _refused(host: str, error: int, depth: int, date: str) -> None:
    whose = "the peer's certificate" if depth == 0 else "a certificate above the peer's"
    how = "expired on" if error == _EXPIRED else "is not valid before"
    while len(_refusals) >= _MOST_REFUSALS:
        del _refusals[next(iter(_refusals))]
    _refusals[host] = f"{whose} {how} {date}"


@cache
def _openssl() -> tuple[Callable[[ctypes.c_void_p, Any], None], Any] | None:
    """Return what sets the function of a context, and that function; OpenSSL calls it as long as the process lives."""
    import cproton_ffi  # type: ignore[import-not-found]  # noqa: PLC0415 - loaded only with certificates

    if (cproton_ffi.lib.PN_VERSION_MAJOR, cproton_ffi.lib.PN_VERSION_MINOR) != PROTON:
        return None
    engine = ctypes.CDLL(cproton_ffi.__file__)  # it finds what the engine is linked to, too
    try:
        mode = _function(engine.SSL_CTX_get_verify_mode, ctypes.c_int, ctypes.c_void_p)
        former = _function(engine.SSL_CTX_get_verify_callback, _VERIFIES, ctypes.c_void_p)
        replace = _function(engine.SSL_CTX_set_verify, None, ctypes.c_void_p, ctypes.c_int, _VERIFIES)
        depth = _function(engine.X509_STORE_CTX_get_error_depth, ctypes.c_int, ctypes.c_void_p)
        shown = _function(engine.X509_STORE_CTX_get_current_cert, ctypes.c_void_p, ctypes.c_void_p)
        place = _function(engine.SSL_get_ex_data_X509_STORE_CTX_idx, ctypes.c_int)
        owner = _function(engine.X509_STORE_CTX_get_ex_data, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
        dialled = _function(engine.SSL_get_servername, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int)
        error_of = _function(engine.X509_STORE_CTX_get_error, ctypes.c_int, ctypes.c_void_p)
        ends = {
            _NOT_YET_VALID: _function(engine.X509_get0_notBefore, ctypes.c_void_p, ctypes.c_void_p),
            _EXPIRED: _function(engine.X509_get0_notAfter, ctypes.c_void_p, ctypes.c_void_p),
        }
        to_tm = _function(engine.ASN1_TIME_to_tm, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
        has_address = _function(engine.X509_check_ip_asc, ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint)
    except AttributeError:
        return None
    by_name: list[Any] = []  # Proton's own function, of all clients the same

    def verify(fine: int, store: int) -> int:
        host = dialled(owner(store, place()), _HOST)
        error = 0 if fine else error_of(store)
        if host:
            name = host.decode("ascii", "replace")
            _refusals.pop(name, None)  # that of its connection before
            date = (ctypes.c_int * _TM_INTS)()
            if error in ends and to_tm(ends[error](shown(store)), date):
                _refused(name, error, depth(store), _date(list(date)))
        if fine and host and depth(store) == 0 and has_address(shown(store), host, 0) == 1:  # a name is no address: -2
            return 1
        named: int = by_name[0](fine, store)
        return named

    verifying = _VERIFIES(verify)  # an exception in it counts as 0: the certificate is refused

    def set_in(context: ctypes.c_void_p, function: Any) -> None:
        by_name[:] = by_name or [former(context)]
        replace(context, mode(context), function)

    return set_in, verifying


def _date(tm: Sequence[int]) -> str:
    """Return the time of a `struct tm` in UTC."""
    second, minute, hour, day, month, year = tm[:6]
    return f"{year + 1900}-{month + 1:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC"


def _function(function: Any, result: Any, *arguments: Any) -> Callable[..., Any]:
    function.restype, function.argtypes = result, arguments
    return function  # type: ignore[no-any-return]  # ctypes finds it by name
