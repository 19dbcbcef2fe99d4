"""TLS of HTTP listeners; changed certificate files are read again."""

import logging
import os
import re
import socket
import ssl
import warnings
from typing import Final

from shm.contract.security import TlsSetup
from workers.control.tls import PROTOCOLS, CertificateError, explain, password_of

LOGGER = logging.getLogger("HTTP")

TLS_RECORD: Final = b"\x16"  # a TLS handshake begins with this byte (RFC 8446, 5.1), no HTTP request does
_PROHIBITIONS: Final = (ssl.OP_NO_TLSv1, ssl.OP_NO_TLSv1_1, ssl.OP_NO_TLSv1_2, ssl.OP_NO_TLSv1_3)
_VERSIONS: Final = (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)

Stamp = tuple[tuple[int, int] | None, ...]


class Secured:
    """The TLS of an HTTP listener: as its files were when they could be used last."""

    def __init__(self, setup: TlsSetup) -> None:
        self._setup = setup
        self._stamp: Stamp | None = None
        self._context: ssl.SSLContext | None = None
        self.required = setup.required or setup.verify
        self._renew()

    @property
    def usable(self) -> bool:
        """Whether clients can speak TLS: the files can be used, or could be since this process knows them."""
        if self._context is None:
            self._renew()
        return self._context is not None

    def accept(self, sock: socket.socket) -> ssl.SSLSocket:
        """Return the server's end of TLS on an accepted socket, before its handshake. Raises ssl.SSLError."""
        self._renew()
        if self._context is None:
            raise ssl.SSLError(0, "the listener's sslProfile cannot be used")
        return self._context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)

    def _renew(self) -> None:
        """Use the files if they have changed since the last time."""
        stamp = self._look()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._context = _context(self._setup)
        except (CertificateError, OSError, ValueError) as error:  # the latter: they have changed once more
            then = "new connections keep the previous certificates"
            if self._context is None:
                then = "clients with TLS are refused until that is mended"
            LOGGER.error("%s; %s", error, then)

    def _look(self) -> Stamp:
        setup = self._setup
        names = (setup.cert_file, setup.private_key_file, setup.ca_cert_file, setup.trusted_certs_file)
        return tuple(_stat(name) for name in names if name)


def _context(setup: TlsSetup) -> ssl.SSLContext:
    if wrong := explain(setup):
        raise CertificateError(f"sslProfile {setup.profile}: {wrong[0]}: {wrong[1]}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    password = password_of(setup.password)
    context.load_cert_chain(setup.cert_file, setup.private_key_file or setup.cert_file, lambda: password or " ")
    if setup.ciphers:
        context.set_ciphers(setup.ciphers)
    allowed = [name for name in PROTOCOLS if name in re.split(r"[\s,;]+", setup.protocols)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the profile may name old versions
        if allowed:
            context.minimum_version = _VERSIONS[PROTOCOLS.index(allowed[0])]
        for name, prohibition in zip(PROTOCOLS, _PROHIBITIONS, strict=True):
            if name not in allowed:
                context.options |= prohibition
    if setup.verify:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(setup.trusted_certs_file or setup.ca_cert_file)
    return context


def _stat(name: str) -> tuple[int, int] | None:
    try:
        found = os.stat(name)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino
