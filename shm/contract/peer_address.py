"""Has a peer's certificate verified by the IP address that was dialled, too (iPAddress, RFC 5280 4.2.1.6).

Proton compares the host of a connection with a certificate's host names and common names alone, and has no function for
addresses. So a function of this module stands before the one by which Proton verifies: OpenSSL calls it for each
certificate of the chain (SSL_CTX_set_verify(3)), and what it refuses fails the handshake, before anybody logs in.
OpenSSL's context is the first member of Proton's `pn_ssl_domain_t`, as of the version that `PROTON` names. Proton gives
OpenSSL the host as server name (SNI), also where it is an address, so one function serves all connections.
"""

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, Final

PROTON: Final = (0, 40)
_VERIFIES: Final = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p)
_HOST: Final = 0  # TLSEXT_NAMETYPE_host_name


def accept_addresses(domain: int) -> None:
    """Have a certificate accepted that has the address dialled, besides those that ``domain`` accepts by their names.

    ``domain`` is the place of a `pn_ssl_domain_t` in memory, a client's, whose peer authentication is set. This is a
    no-op if this engine has no way to.
    """
    if found := _openssl():
        context, verify = found
        context(ctypes.c_void_p.from_address(domain), verify)


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
        has_address = _function(engine.X509_check_ip_asc, ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint)
    except AttributeError:
        return None
    by_name: list[Any] = []  # Proton's own function, of all clients the same

    def verify(fine: int, store: int) -> int:
        if fine and depth(store) == 0:
            host = dialled(owner(store, place()), _HOST)
            if host and has_address(shown(store), host, 0) == 1:  # a name is no address: -2
                return 1
        named: int = by_name[0](fine, store)
        return named

    verifying = _VERIFIES(verify)  # an exception in it counts as 0: the certificate is refused

    def set_in(context: ctypes.c_void_p, function: Any) -> None:
        by_name[:] = by_name or [former(context)]
        replace(context, mode(context), function)

    return set_in, verifying


def _function(function: Any, result: Any, *arguments: Any) -> Callable[..., Any]:
    function.restype, function.argtypes = result, arguments
    return function  # type: ignore[no-any-return]  # ctypes finds it by name
