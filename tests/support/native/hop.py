"""The worker's way with router annotations as a Python function (workers/amqp/annotations_in.c, …_out.c)."""

import ctypes
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
NONE, MAP, SECTION, SKUPPER = range(4)  # enum content_annotations
STREAM, OVERRIDE, IGNORED = 1, 2, 4  # enum content_routed
SEND_STREAM, SEND_AFRESH = 16, 32  # enum send_routed


class Terms(ctypes.Structure):
    """hop_terms of tests/native/hop.h."""

    _fields_ = (
        ("trusted", ctypes.c_uint8),
        ("form", ctypes.c_uint8),
        ("state", ctypes.c_uint8),
        ("id", ctypes.c_char_p),
        ("to", ctypes.c_char_p),
        ("to_length", ctypes.c_size_t),
        ("small", ctypes.c_bool),
        ("step", ctypes.c_size_t),
    )


class Passed(ctypes.Structure):
    """passed of annotations.c: what came of a message."""

    _fields_ = (
        ("why", ctypes.c_char_p),
        ("condition", ctypes.c_char_p),
        ("bytes", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
        ("annotations", ctypes.c_uint32),
        ("routed", ctypes.c_uint32),
        ("phase", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("ingress_length", ctypes.c_uint32),
        ("trace_count", ctypes.c_uint32),
        ("user_count", ctypes.c_uint32),
    )


class RefusedError(Exception):
    """The message is rejected: condition and description."""


@dataclass
class Hop:
    """A router between a peer whose word counts in the forms ``trusted``, and one spoken to in ``form``."""

    native: ctypes.CDLL
    passed: Passed

    def __call__(
        self,
        message: bytes,
        trusted: tuple[int, ...] = (),
        form: int = NONE,
        router: str = "0/A",
        to: bytes = b"",
        state: int = 0,
        *,
        small: bool = False,
        step: int = 0,
    ) -> bytes:
        """The message as it leaves."""
        mask = sum(1 << one for one in trusted)
        terms = Terms(mask, form, state, router.encode(), to, len(to), small, step)
        done = self.native["pass"](ctypes.byref(terms), message, len(message), ctypes.byref(self.passed))
        assert done >= 0, "blocks were lost"
        if done:
            return ctypes.string_at(self.passed.bytes, self.passed.size)
        assert self.passed.why, "the content header made no sense to the sender"
        raise RefusedError(self.passed.condition.decode(), self.passed.why.decode())


def build(folder: Path) -> Hop:
    """Compile it."""
    library = folder / "hop.so"
    command = ["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O0", "-Wall", "-Wextra", "-Werror"]
    command += ["-Wno-unused-function"]
    command += [f"-I{ROOT}"]
    # -Bsymbolic: its own engine calls, also where other tests have loaded the engine for everybody
    command += ["-shared", "-fPIC", "-Wl,-Bsymbolic", "-o", str(library)]
    command.append(str(Path(__file__).with_name("annotations.c")))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return Hop(ctypes.CDLL(str(library)), Passed())
