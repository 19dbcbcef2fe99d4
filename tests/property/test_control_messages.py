"""Control messages: what one router writes another reads, and no bytes do more harm than being refused."""

import struct
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from proton import Data

from core.amqp import codec as wire
from core.interior.advertisement import Advertisement
from core.interior.hello import Hello, greeting
from core.interior.linkstate import LARGEST_COST, LinkStateUpdate
from core.interior.message import BadMessageError, Fields, decode, is_router
from core.interior.mobile import MobileUpdate
from core.interior.skupper import to_skupper
from tests.support.values.spelled import SPELLINGS, spelled

ROUTERS = st.text(min_size=1, max_size=40).filter(is_router)
NUMBERS = st.integers(0, 2**63 - 1)
KEYS = st.one_of(
    st.text(min_size=1, max_size=40).map(lambda text: f"M0{text}"),
    st.text(min_size=1, max_size=300).map(lambda text: f"H{text}"),
    st.text(min_size=1, max_size=8).map(lambda text: f"C{text}"),
)
ADDRESSES = st.dictionaries(KEYS, st.integers(-1, 5), max_size=20)

VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False),
        st.text(max_size=300),
        st.binary(max_size=300),
    ),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=5),
    max_leaves=20,
)


@given(VALUES)
def test_values_survive_our_own_parser_and_the_engine_reads_the_same(value: Any) -> None:
    """Every nesting, short and long forms."""
    content = wire.value(value)
    parser = wire.Parser(content)
    assert parser.value() == value
    assert parser.finished
    data = Data()
    assert data.decode(content) == len(content)
    data.rewind()
    data.next()
    assert data.get_object() == value


@given(VALUES)
def test_the_engine_writes_values_of_the_same_types(value: Any) -> None:
    """In other widths, so both are compared as the engine reads them."""
    ours, theirs = Data(), Data()
    theirs.put_object(value)
    ours.decode(wire.value(value))
    assert ours.format() == theirs.format()


@pytest.mark.parametrize("value", [object(), {1, 2}, [b"", 1j]])
def test_values_of_other_types_are_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="AMQP has no type for"):
        wire.value(value)


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
def test_values_that_have_no_octets_are_refused(value: Any) -> None:
    """More than 64 bits."""
    with pytest.raises(struct.error):
        wire.value([value])


@given(VALUES)
def test_the_engines_values_are_read(value: Any) -> None:
    """Its composer prefers other forms."""
    data = Data()
    data.put_object(value)
    assert wire.Parser(data.encode()).value() == value


@given(ROUTERS, NUMBERS, st.lists(ROUTERS, max_size=10), st.integers(0, LARGEST_COST))
def test_greetings(router: str, instance: int, seen: list[str], cost: int) -> None:
    for spelling in SPELLINGS:
        content = spelled(greeting(router, instance, seen, cost), [spelling])
        assert Hello.read(Fields(decode(content).body)) == Hello(router, instance, frozenset(seen), cost=cost)


@given(ROUTERS, NUMBERS, NUMBERS, NUMBERS)
def test_advertisements(router: str, instance: int, ls_seq: int, mobile_seq: int) -> None:
    message = Advertisement(router, instance, ls_seq, mobile_seq)
    assert Advertisement.read(Fields(decode(message.encode()).body)) == message


@given(ROUTERS, NUMBERS, NUMBERS, st.dictionaries(ROUTERS, st.integers(1, 2**31 - 1), max_size=20))
def test_link_states(router: str, instance: int, ls_seq: int, peers: dict[str, int]) -> None:
    peers.pop(router, None)
    message = LinkStateUpdate(router, instance, ls_seq, peers)
    assert LinkStateUpdate.read(Fields(decode(message.encode("x")).body)) == message


@given(ROUTERS, NUMBERS, ADDRESSES, st.lists(KEYS, max_size=10), st.booleans())
def test_addresses(router: str, seq: int, present: dict[str, int], gone: list[str], absolute: bool) -> None:
    message = MobileUpdate(router, seq, present, () if absolute else tuple(gone), absolute)
    assert MobileUpdate.read(Fields(decode(message.encode("x")).body)) == message


@given(ROUTERS, NUMBERS, ADDRESSES, st.lists(KEYS, max_size=10), st.booleans())
def test_addresses_in_skuppers_form(
    router: str, seq: int, present: dict[str, int], gone: list[str], absolute: bool
) -> None:
    """What has words on the other side comes back as it was; its treatments have no linkBalanced."""
    message = MobileUpdate(router, seq, present, () if absolute else tuple(gone), absolute, 2)
    back = MobileUpdate.read(Fields(decode(message.encode("x")).body))
    expected = {key: -1 if hint == 4 else hint for key, hint in present.items() if to_skupper(key)}
    assert back.present == expected
    assert back.gone == (() if absolute else tuple(key for key in gone if to_skupper(key)))


@given(st.binary(max_size=200))
@example(b"\x00" * 200)
@example(b"\xe0\xff" * 100)
@settings(max_examples=500)
def test_no_bytes_break_the_decoder(content: bytes) -> None:
    """A message, or a reason."""
    try:
        control = decode(content)
    except BadMessageError:
        return
    assert isinstance(control.body, dict)
