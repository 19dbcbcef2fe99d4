"""An application on the real RMR library: `rmr_library.py LIBRARY PORT send|answer|call NUMBER`.

It says `ready`, waits for a line, does its work, and says what came of it: a line of JSON for each message.
"""

import ctypes
import json
import sys
import time
from typing import Any

OK = 0
TIMEOUT = 12
MT_CALLS = 2  # a flag of rmr_init


class Buffer(ctypes.Structure):
    """The public part of a message."""

    _fields_ = (
        ("state", ctypes.c_int),
        ("mtype", ctypes.c_int),
        ("length", ctypes.c_int),
        ("payload", ctypes.POINTER(ctypes.c_char)),
        ("transaction", ctypes.POINTER(ctypes.c_char)),
        ("subscription", ctypes.c_int),
    )


def load(path: str) -> ctypes.CDLL:
    library = ctypes.CDLL(path)
    message, context = ctypes.POINTER(Buffer), ctypes.c_void_p
    for name, result, given in (
        ("rmr_init", context, (ctypes.c_char_p, ctypes.c_int, ctypes.c_int)),
        ("rmr_ready", ctypes.c_int, (context,)),
        ("rmr_alloc_msg", message, (context, ctypes.c_int)),
        ("rmr_send_msg", message, (context, message)),
        ("rmr_torcv_msg", message, (context, message, ctypes.c_int)),
        ("rmr_rts_msg", message, (context, message)),
        ("rmr_mt_call", message, (context, message, ctypes.c_int, ctypes.c_int)),
        ("rmr_get_src", ctypes.c_char_p, (message, ctypes.c_char_p)),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, given
    return library


class Application:
    def __init__(self, path: str, port: str) -> None:
        self.library = load(path)
        self.context = self.library.rmr_init(port.encode(), 4096, MT_CALLS)
        while not self.library.rmr_ready(self.context):
            time.sleep(0.05)

    def message(self, kind: int, text: bytes) -> Any:
        made = self.library.rmr_alloc_msg(self.context, 4096)
        made.contents.mtype, made.contents.subscription, made.contents.length = kind, -1, len(text)
        ctypes.memmove(made.contents.payload, text, len(text))
        ctypes.memmove(made.contents.transaction, b"%-32d" % kind, 32)
        return made

    def receive(self) -> Any:
        got = self.library.rmr_torcv_msg(self.context, None, 15000)
        assert got, "nothing came"
        assert got.contents.state != TIMEOUT, "nothing came"
        return got

    def told(self, message: Any, **more: object) -> None:
        got, source = message.contents, ctypes.create_string_buffer(64)
        self.library.rmr_get_src(message, source)
        text = got.payload[: got.length].decode()
        said = {"type": got.mtype, "text": text, "state": got.state, "source": source.value.decode()}
        print(json.dumps(said | more), flush=True)

    def send(self, number: int) -> None:
        """Send, and take the answers."""
        for i in range(number):
            sent = self.library.rmr_send_msg(self.context, self.message(1000, b"send %d" % i))
            assert sent.contents.state == OK, sent.contents.state
        for _ in range(number):
            self.told(self.receive())

    def answer(self, number: int) -> None:
        """Answer with the next message type."""
        for _ in range(number):
            got = self.receive()
            self.told(got)
            got.contents.mtype += 1
            sent = self.library.rmr_rts_msg(self.context, got)
            assert sent.contents.state == OK, sent.contents.state

    def call(self, number: int) -> None:
        """Ask, and wait for the answer."""
        for i in range(number):
            back = self.library.rmr_mt_call(self.context, self.message(1000, b"call %d" % i), 2, 5000)
            assert back, "no answer"
            self.told(back, transaction=back.contents.transaction[:32].decode().strip())


def main() -> None:
    _, path, port, role, number = sys.argv
    application = Application(path, port)
    print("ready", flush=True)
    sys.stdin.readline()
    getattr(application, role)(int(number))
    print("done", flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main()
