"""Has OpenSSL compare the IP address of a URL with those in the router's certificate (iPAddress, RFC 5280 4.2.1.6).

Proton compares a name with a certificate's host names alone, and has no function for this. So these functions set the
address where OpenSSL looks for it (X509_VERIFY_PARAM_set1_ip_asc(3)): a wrong one fails the handshake, before anybody
logs in. OpenSSL's context is the first member of Proton's `pn_ssl_domain_t`, as of the version that `PROTON` names.
"""

import ctypes
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

import cproton  # type: ignore[import-untyped]  # it has no types
import cproton_ffi  # type: ignore[import-not-found]  # it has no types
from proton import SSLDomain

PROTON: Final = (0, 40)


def address_in(url: str) -> str:
    """Return the IP address in a URL, or "" if its host is a name."""
    try:
        host = urlsplit(url).hostname or ""
        return str(ip_address(host))
    except ValueError:
        return ""


def expect_address(domain: SSLDomain, address: str) -> bool:
    """Have a certificate verified only if it has this address; return False if this engine has no way to."""
    if (cproton.PN_VERSION_MAJOR, cproton.PN_VERSION_MINOR) != PROTON:
        return False
    engine = ctypes.CDLL(cproton_ffi.__file__)  # it finds what the engine is linked to, too
    try:
        parameters, set_address = engine.SSL_CTX_get0_param, engine.X509_VERIFY_PARAM_set1_ip_asc
    except AttributeError:
        return False
    parameters.restype, parameters.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    set_address.restype, set_address.argtypes = ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p]
    where = int(cproton_ffi.ffi.cast("uintptr_t", domain._domain))
    context = ctypes.c_void_p.from_address(where)
    return bool(set_address(parameters(context), address.encode()) == 1)
