"""Logins of users whom Cyrus SASL knows, by calls to the library that the engine has loaded.

The library's answer to an unknown user would reveal which users exist: SCRAM fails at its first step, without
computing anything. This module asks an unknown user the same question as a known one, after as much work,
and refuses the login at the next step.
"""

import base64
import ctypes
import hashlib
import hmac
import os
import re
import time
from typing import Any, Final, NamedTuple

OK: Final = 0
CONTINUE: Final = 1
NO_USER: Final = -20  # SASL_NOUSER
WRONG: Final = frozenset({NO_USER, -13, -9, -14, -18, -19, -26, -28})  # all codes for a refused user
BAD_PROTOCOL: Final = -5  # SASL_BADPROT
MALFORMED: Final = frozenset({BAD_PROTOCOL, -7, -3})  # with SASL_BADPARAM, SASL_BUFOVER
NO_MECHANISM: Final = -4
AUTHENTICATED_USER: Final = 16  # SASL_AUTHUSER
_EXTERNAL: Final = 102  # SASL_AUTH_EXTERNAL
_CONFIGURATION: Final = 1  # SASL_PATH_TYPE_CONFIG

ITERATIONS: Final = 4096  # SCRAM's iteration count before the first observed one (RFC 5802 section 5.1)
_NONCE_BYTES: Final = 24
_USUAL_SECONDS: Final = 0.004  # CPU time of SCRAM's first step before the first observed one
_FIRST: Final = re.compile(rb"(?:[ny]|p=[^,]*),(?:a=[^,]*)?,n=([^,]+),r=([^,]*)(?:,.*)?", re.DOTALL)
_CHALLENGE: Final = re.compile(rb"r=[^,]*,s=[^,]*,i=([0-9]{1,9})")
_HASH: Final = re.compile(r"SCRAM-SHA-(1|224|256|384|512)(?:-PLUS)?")


class Said(NamedTuple):
    """The library's answer: OK, CONTINUE with a question, or a refusal; ``user`` is who wants to log in."""

    code: int
    question: bytes = b""
    user: str = ""
    why: str = ""


def configuration(directory: str, name: str) -> dict[str, str]:
    """Return the settings of Cyrus SASL's file of that name; empty without a directory or if it cannot be read."""
    if not directory:
        return {}
    try:
        with open(os.path.join(directory, f"{name}.conf"), encoding="utf-8", errors="replace") as lines:
            pairs = [line.split(":", 1) for line in lines if ":" in line]
    except OSError:
        return {}
    return {setting.strip(): value.strip() for setting, value in pairs}


class CyrusError(Exception):
    """Cyrus SASL cannot be used; the text says why."""


class Cyrus:
    """The library, shared by all exchanges of a process. Raises CyrusError."""

    def __init__(self, directory: str, name: str) -> None:
        library: Any = ctypes.CDLL(None)  # the engine has loaded it with global symbols
        if not hasattr(library, "sasl_server_init"):
            raise CyrusError("the AMQP engine was built without Cyrus SASL")
        library.sasl_errstring.restype = ctypes.c_char_p
        library.sasl_dispose.argtypes = [ctypes.c_void_p]
        self.library = library
        self.key = os.urandom(32)
        self.iterations = ITERATIONS
        self.usual = _USUAL_SECONDS
        if directory:
            library.sasl_set_path(_CONFIGURATION, directory.encode())
        if code := library.sasl_server_init(None, name.encode()):
            raise CyrusError(f"Cyrus SASL cannot be used: {self.text(code)}")

    def text(self, code: int) -> str:
        """Return the library's text for a code."""
        found: bytes | None = self.library.sasl_errstring(code, None, None)
        return (found or b"").decode("ascii", "replace") or str(code)

    def mechanisms(self) -> list[str]:
        """Return the mechanisms that the configuration and the plug-ins offer."""
        exchange = Exchange(self)
        self.library.sasl_setprop(exchange.state, _EXTERNAL, b"somebody")
        listed = ctypes.c_char_p()
        ends = (None, b"", b" ", b"")
        code = self.library.sasl_listmech(exchange.state, *ends, ctypes.byref(listed), None, None)
        words = (listed.value or b"").decode("ascii", "replace").split() if code == OK else []
        exchange.close()
        return words


class Exchange:
    """The SASL exchange of one client; only one thread at a time may use it."""

    def __init__(self, cyrus: Cyrus) -> None:
        self._cyrus = cyrus
        self.state = ctypes.c_void_p()
        self._mechanism = ""
        self._pretended = False
        self._user = ""
        begin = (b"amqp", None, None, None, None, None, 0, ctypes.byref(self.state))
        if code := cyrus.library.sasl_server_new(*begin):
            raise CyrusError(f"Cyrus SASL cannot start an exchange: {cyrus.text(code)}")

    def start(self, mechanism: str, said: bytes) -> Said:
        """Answer the client's sasl-init: its mechanism and initial response."""
        self._mechanism = mechanism.upper()
        if self._mechanism == "PLAIN":
            self._user = _shown(said.split(b"\0")[1]) if said.count(b"\0") == 2 else ""
        return self._called(self._cyrus.library.sasl_server_start, said, mechanism.encode())

    def step(self, said: bytes) -> Said:
        """Answer the client's sasl-response."""
        if self._pretended:
            return Said(NO_USER, b"", self._user)
        return self._called(self._cyrus.library.sasl_server_step, said)

    def close(self) -> None:
        """Free the exchange."""
        self._cyrus.library.sasl_dispose(ctypes.byref(self.state))

    def _called(self, function: Any, said: bytes, *mechanism: bytes) -> Said:
        out, size = ctypes.c_void_p(), ctypes.c_uint()
        began = time.thread_time()
        answer = (ctypes.byref(out), ctypes.byref(size))
        code = function(self.state, *mechanism, said, len(said), *answer)
        question = ctypes.string_at(out.value, size.value) if out.value and code >= 0 else b""
        if _HASH.fullmatch(self._mechanism) and (first := _FIRST.fullmatch(said)):
            self._user = _shown(first[1])
            if code == NO_USER:
                return self._pretend(first[1], first[2], began)
            if code == CONTINUE and (asked := _CHALLENGE.fullmatch(question)):
                self._cyrus.iterations = int(asked[1])
                self._cyrus.usual += (time.thread_time() - began - self._cyrus.usual) / 8
        if code == OK:
            return self._admitted(question)
        if code > OK:
            return Said(code, question)
        return Said(code, b"", self._user or _shown(self._name()), self._cyrus.text(code))

    def _admitted(self, question: bytes) -> Said:
        """Return the user who has proved it; a name that is no text is nobody's, because AMQP cannot say it."""
        name = self._name()
        try:
            return Said(OK, question, name.decode())
        except UnicodeDecodeError:
            return Said(BAD_PROTOCOL, b"", _shown(name), "the user's name is not UTF-8")

    def _pretend(self, user: bytes, nonce: bytes, began: float) -> Said:
        """Return the question that a known user of that name would get, after as much CPU time."""
        found = _HASH.fullmatch(self._mechanism)
        assert found is not None
        size = hashlib.new("sha" + found[1]).digest_size
        salt = hmac.digest(self._cyrus.key, found[1].encode() + b" " + user, "sha512")[:size]
        while time.thread_time() - began < self._cyrus.usual:
            hashlib.pbkdf2_hmac("sha256", user, salt, 128)
        nonce += base64.b64encode(os.urandom(_NONCE_BYTES))
        self._pretended = True
        asked = (b"r=", nonce, b",s=", base64.b64encode(salt), b",i=%d" % self._cyrus.iterations)
        return Said(CONTINUE, b"".join(asked), self._user)

    def _name(self) -> bytes:
        """Return the name of the user who logs in."""
        found = ctypes.c_char_p()
        known = self._cyrus.library.sasl_getprop(self.state, AUTHENTICATED_USER, ctypes.byref(found)) == OK
        return (known and found.value) or b""


def _shown(user: bytes) -> str:
    return user.decode("utf-8", "backslashreplace")
