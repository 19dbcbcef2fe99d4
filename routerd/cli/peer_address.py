"""Has a router's certificate verified by the IP address of a URL, too (iPAddress, RFC 5280 4.2.1.6).

Proton compares the host of a URL with a certificate's host names and common names alone, and has no function for
addresses. So a function of this module stands before the one by which Proton verifies: OpenSSL calls it for each
certificate of the chain (SSL_CTX_set_verify(3)), and what it refuses fails the handshake, before anybody logs in.
OpenSSL's context is the first member of Proton's `pn_ssl_domain_t`, as of the version that `PROTON` names.
"""

import ctypes
from collections.abc import Callable
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

import cproton  # type: ignore[import-untyped]  # it has no types
import cproton_ffi  # type: ignore[import-not-found]  # it has no types
from proton import SSLDomain

PROTON: Final = (0, 40)
_VERIFIES: Final = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p)
_verifiers: Final[dict[str, Any]] = {}  # by address; OpenSSL calls them for as long as there are connections


def address_in(url: str) -> str:
    """Return the IP address in a URL, or "" if its host is a name."""
    try:
        host = urlsplit(url).hostname or ""
        return str(ip_address(host))
    except ValueError:
        return ""


def accept_address(domain: SSLDomain, address: str) -> None:
    """Have a certificate with this address accepted, besides those that ``domain`` accepts by their names.

    The peer authentication of ``domain`` must be set. This is a no-op if this engine has no way to.
    """
    if (cproton.PN_VERSION_MAJOR, cproton.PN_VERSION_MINOR) != PROTON:
        return
    engine = ctypes.CDLL(cproton_ffi.__file__)  # it finds what the engine is linked to, too
    try:
        mode = _function(engine.SSL_CTX_get_verify_mode, ctypes.c_int, ctypes.c_void_p)
        former = _function(engine.SSL_CTX_get_verify_callback, _VERIFIES, ctypes.c_void_p)
        replace = _function(engine.SSL_CTX_set_verify, None, ctypes.c_void_p, ctypes.c_int, _VERIFIES)
        depth = _function(engine.X509_STORE_CTX_get_error_depth, ctypes.c_int, ctypes.c_void_p)
        shown = _function(engine.X509_STORE_CTX_get_current_cert, ctypes.c_void_p, ctypes.c_void_p)
        has_address = _function(engine.X509_check_ip_asc, ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint)
    except AttributeError:
        return
    context = ctypes.c_void_p.from_address(int(cproton_ffi.ffi.cast("uintptr_t", domain._domain)))
    by_name, wanted = former(context), address.encode()  # of all domains the same

    def verify(fine: int, store: int) -> int:
        if fine and depth(store) == 0 and has_address(shown(store), wanted, 0) == 1:
            return 1
        return int(by_name(fine, store))

    if address not in _verifiers:
        _verifiers[address] = _VERIFIES(verify)  # an exception in it counts as 0: the certificate is refused
    replace(context, mode(context), _verifiers[address])


def _function(function: Any, result: Any, *arguments: Any) -> Callable[..., Any]:
    function.restype, function.argtypes = result, arguments
    return function  # type: ignore[no-any-return]  # ctypes finds it by name
