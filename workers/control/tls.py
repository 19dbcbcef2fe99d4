"""TLS of listeners and connectors: loads certificates, notices their changes, derives users from them.

The engine only reports that it cannot use a certificate. `explain` finds the reason, before the router starts
and when a changed certificate is unusable.
"""

import logging
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from shm.contract.security import TlsSetup
from shm.contract.text import cause

if TYPE_CHECKING:
    import ssl

SERVER = logging.getLogger("SERVER")

# The letters of uidFormat: fields of the certificate's subject, and digests of the certificate (engine.h).
SUBJECT_FIELDS: Final = {"c": "C", "s": "ST", "l": "L", "o": "O", "u": "OU", "n": "CN"}
DIGESTS: Final = {"1": 0, "2": 1, "5": 2}

_FIELD: Final = re.compile(r"([^=,+\\]+)=((?:[^,+\\]|\\[0-9A-F]{2}|\\.)*)(?:[,+]|$)")  # of a subject
_ESCAPED: Final = re.compile(rb"\\([0-9A-F]{2}|.)")
_CONTROL: Final = re.compile(r"[\0-\x1f\x7f-\x9f]")

PROTOCOLS: Final = ("TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3")

_TRUSTED: Final = "a PEM file of certificates to trust that the router's user may read"
# What each file of a profile has to be.
WANTED: Final = {
    "certFile": "a PEM file of the certificate that the router's user may read",
    "privateKeyFile": "a PEM file of the certificate's key that the router's user may read",
    "caCertFile": _TRUSTED,
    "trustedCertsFile": _TRUSTED,
    "uidNameMappingFile": "a file of one JSON object, from user names to others",
}

Stamp = tuple[tuple[int, int, int] | None, ...]


class Engine(Protocol):
    """The part of workers.loop.pump.Security that certificates need."""

    def secure_listener(self, number: int, tls: dict[str, str | bool] | None) -> str | None: ...
    def certificate_subject(self, index: int) -> str: ...
    def certificate_digest(self, index: int, algorithm: int) -> str | None: ...


class CertificateError(Exception):
    """A certificate, key or profile cannot be used; the text says which and why."""


class PasswordError(ValueError):
    """A configured password cannot be resolved; the text does not show it."""


def unknown_protocols(text: str) -> list[str]:
    """Return the words in a profile's protocols that name no version of TLS."""
    return [word for word in re.split(r"[\s,;]+", text) if word and word not in PROTOCOLS]


def password_of(text: str, *, of_key: bool = True) -> str:
    """Return the password that a configured text stands for. Raises PasswordError.

    As in qpid-dispatch, ``literal:`` is only valid for the password of a key.
    """
    kind, colon, rest = text.partition(":")
    if not colon or kind not in ("env", "file", "pass", *(["literal"] if of_key else [])):
        return text
    if kind == "env":
        if rest not in os.environ:
            raise PasswordError(f"there is no environment variable {rest}")
        return os.environ[rest]
    if kind == "file":
        try:
            return Path(rest).read_text(encoding="utf-8").partition("\n")[0].rstrip("\r")
        except (OSError, UnicodeDecodeError) as error:
            raise PasswordError(f"Unable to open password file {rest}, error: {cause(error)}") from error
    return rest


def explain(tls: TlsSetup) -> tuple[str, str] | None:
    """Return a profile's first faulty attribute and its fault; None if OpenSSL can use the profile."""
    return next(faults(tls), None)


def faults(tls: TlsSetup) -> Iterator[tuple[str, str]]:
    """Yield each faulty attribute of a profile with its fault and what to give instead."""
    faulty = set()
    for attribute, path in _files(tls):
        if why := _of_file(attribute, path):
            faulty.add(attribute)
            yield attribute, f"{path} {why}; give {WANTED[attribute]}"
    try:
        password = password_of(tls.password)
    except PasswordError as error:
        yield "password", str(error)
    else:
        if tls.cert_file and not faulty & {"certFile", "privateKeyFile"} and (why := _of_key(tls, password)):
            yield "privateKeyFile", why
    if tls.ciphers and (why := _openssl(lambda context: context.set_ciphers(tls.ciphers))):
        yield "ciphers", f"OpenSSL knows none of them ({why}); give some that `openssl ciphers` lists"


def _of_file(attribute: str, path: str) -> str:
    """Return why a file by itself cannot be used; empty if it can."""
    try:
        with open(path, "rb"):
            pass
        if attribute == "uidNameMappingFile":
            _read_mapping(path)
    except OSError as error:
        return f"cannot be read ({cause(error)})"
    except ValueError as error:
        return str(error)
    if attribute in ("privateKeyFile", "uidNameMappingFile"):
        return ""
    why = _openssl(lambda context: context.load_verify_locations(path))
    return f"holds no certificate that can be used ({why})" if why else ""


def _of_key(tls: TlsSetup, password: str) -> str:
    key = tls.private_key_file or tls.cert_file
    why = _openssl(lambda context: context.load_cert_chain(tls.cert_file, key, lambda: password or " "))
    if why and "MISMATCH" in why:
        return f"{key} is not the key of the certificate {tls.cert_file}; give the two that were made together"
    need = "is the password right?" if tls.password else "is a password needed?"
    return f"{key} holds no key that can be used ({why}); {need}" if why else ""


def _openssl(attempt: Callable[["ssl.SSLContext"], None]) -> str:
    """Return why OpenSSL refuses something; empty if it does not."""
    import ssl  # noqa: PLC0415 - large, and needed only for certificates

    try:
        attempt(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    except ssl.SSLError as error:
        return str(getattr(error, "reason", None) or error).partition(" (_ssl.c")[0]
    return ""


def _read_mapping(path: str) -> dict[str, str]:
    try:
        return msgspec.json.decode(Path(path).read_bytes(), type=dict[str, str])
    except OSError as error:
        raise ValueError(f"cannot be read ({cause(error)})") from error
    except msgspec.MsgspecError as error:
        raise ValueError(f"is no JSON object from names to names ({error})") from error


def _files(tls: TlsSetup) -> list[tuple[str, str]]:
    named = [
        ("certFile", tls.cert_file),
        ("privateKeyFile", tls.private_key_file),
        ("caCertFile", tls.ca_cert_file),
        ("trustedCertsFile", tls.trusted_certs_file),
        ("uidNameMappingFile", tls.uid_name_mapping_file),
    ]
    return [(attribute, path) for attribute, path in named if path]


class Certificates:
    """The TLS of one worker's listening sockets and connectors, by the pump's numbers."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._tls: dict[int, TlsSetup] = {}
        self._stamps: dict[int, Stamp] = {}
        self._names: dict[str, dict[str, str]] = {}

    def set(self, number: int, tls: TlsSetup | None) -> None:
        """Set or remove the TLS of a listening socket or connector.

        Raises CertificateError, and then leaves the previous TLS in place.
        """
        if tls is None:
            self._tls.pop(number, None)
            self._engine.secure_listener(number, None)
            return
        before = self._tls.get(number)
        if tls == before:
            return
        self._tls[number] = tls
        self._stamps[number] = stamp(tls)
        if why := self._load(number, tls):
            if before is not None:
                self._tls[number] = before
            else:
                del self._tls[number]
            raise CertificateError(why)

    def refresh(self, number: int) -> str | None:
        """Load changed files; return the reason if that fails, once per change, "" if it succeeds.

        The result is None if no file has changed.
        """
        tls = self._tls[number]
        found = stamp(tls)
        if found == self._stamps[number]:
            return None
        self._stamps[number] = found
        return self._load(number, tls) or ""

    def _load(self, number: int, tls: TlsSetup) -> str | None:
        try:
            password = password_of(tls.password)
            if tls.uid_name_mapping_file:
                self._names[tls.uid_name_mapping_file] = _read_mapping(tls.uid_name_mapping_file)
        except ValueError as error:
            return f"sslProfile {tls.profile}: {error}"
        refused = self._engine.secure_listener(number, _for_engine(tls, password))
        if refused is None:
            return None
        attribute, why = explain(tls) or (refused, "refused by the AMQP engine")
        return f"sslProfile {tls.profile}: {attribute}: {why}"

    def user(self, number: int, index: int) -> str:
        """Return the user that uidFormat derives from a client's certificate; empty without either.

        Raises CertificateError for a subject of which a field is no text: two such users would be one.
        """
        tls = self._tls.get(number)
        if tls is None or not is_uid_format(tls.uid_format):
            return ""
        fields = subject_fields(self._engine.certificate_subject(index)) if set(tls.uid_format) - set(DIGESTS) else {}
        parts = [self._part(index, letter, fields) for letter in tls.uid_format]
        user = ";".join(part for part in parts if part)
        return self._names.get(tls.uid_name_mapping_file, {}).get(user, user)

    def _part(self, index: int, letter: str, fields: dict[str, str]) -> str | None:
        if letter in DIGESTS:
            return self._engine.certificate_digest(index, DIGESTS[letter])
        found = fields.get(SUBJECT_FIELDS[letter])
        if not found:
            return None
        text = _text(found)
        if not text:
            why = f"uidFormat {letter}: the subject of its certificate has a field that is no text: {found}"
            raise CertificateError(why)
        return text


def subject_fields(subject: str) -> dict[str, str]:
    """Return the fields of a subject (RFC 2253) as it spells them, by their types; of each type the first.

    The last one of the text is the certificate's first. OpenSSL ends the text behind a field that it cannot convert.
    Raises CertificateError for such a text: fields may be missing.
    """
    fields, at, last = {}, 0, None
    while found := _FIELD.match(subject, at):
        last, at = found[2], found.end()
        fields[found[1]] = last
    if at < len(subject) or last == "":
        raise CertificateError(f"the subject of its certificate has a field that is no text: {subject}")
    return fields


def _text(spelt: str) -> str:
    """Return the text of a subject's field; empty if it is none, or has a control character, such as NUL."""
    try:
        text = _ESCAPED.sub(lambda one: _octets(one[1]), spelt.encode("ascii")).decode()
    except UnicodeError:
        return ""
    return "" if spelt.startswith("#") or _CONTROL.search(text) else text


def _octets(escaped: bytes) -> bytes:
    return bytes.fromhex(escaped.decode()) if len(escaped) > 1 else escaped


def is_uid_format(text: str) -> bool:
    """Return whether a uidFormat has only known letters; qpid-dispatch ignores any other one."""
    return bool(text) and set(text) <= SUBJECT_FIELDS.keys() | DIGESTS.keys()


def _for_engine(tls: TlsSetup, password: str) -> dict[str, str | bool]:
    trusted = tls.trusted_certs_file or tls.ca_cert_file
    return {
        "certificate": tls.cert_file,
        "key": tls.private_key_file or tls.cert_file,
        "password": password,
        "authorities": trusted,
        "announced": trusted,
        "protocols": tls.protocols,
        "ciphers": tls.ciphers,
        "required": tls.required,
        "verify": tls.verify,
        "client": tls.client,
    }


def stamp(tls: TlsSetup) -> Stamp:
    """Return a value that changes whenever a file of the profile is replaced or written."""
    return tuple(_stat(path) for _, path in _files(tls))


def _stat(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size
