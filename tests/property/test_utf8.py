"""What the router takes for text is what Python takes for it (shm/codec/utf8.h)."""

import ctypes
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.native.library import library

Valid = Callable[[bytes], bool]


@pytest.fixture(scope="module")
def valid(tmp_path_factory: pytest.TempPathFactory) -> Valid:
    """utf8.c, over an allocation of its own size."""
    call = library(Path(__file__).with_name("utf8.c"), tmp_path_factory.mktemp("utf8")).valid
    call.argtypes = (ctypes.c_char_p, ctypes.c_size_t)
    return lambda octets: bool(call(octets, len(octets)))


def python(octets: bytes) -> bool:
    try:
        octets.decode()
    except UnicodeDecodeError:
        return False
    return True


PIECE = st.text(max_size=12).map(str.encode) | st.binary(max_size=4)
EDGES = st.sampled_from(
    [b"\xc0\x80", b"\xe0\x9f\xbf", b"\xed\xa0\x80", b"\xf0\x8f\xbf\xbf", b"\xf4\x90\x80\x80", b"\xff", b"\0"]
)


@given(st.lists(PIECE | EDGES, max_size=6).map(b"".join), st.integers(0, 40))
@example(b"eight ch\xed\xa0\x80", 40)
@example("€".encode(), 2)
@example("\U0010ffff".encode(), 40)
@settings(max_examples=600, deadline=None)
def test_text_is_what_python_takes_for_it(valid: Valid, octets: bytes, cut: int) -> None:
    """Texts, octets and what is nearly text: whole, cut off, and behind eight plain characters."""
    for part in (octets, octets[:cut], b"a" * 8 + octets):
        assert valid(part) == python(part), part


def test_every_beginning_of_a_character(valid: Valid) -> None:
    """All first and second octets with what may follow: surrogates, overlong forms, U+110000 are none."""
    for lead, second, rest in product(range(0x80, 256), range(256), (b"", b"\x80", b"\xbf\xbf", b"\x80\x41")):
        octets = bytes((lead, second)) + rest
        assert valid(octets) == python(octets), octets
