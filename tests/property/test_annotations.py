"""Router annotations through one router, in every pair of forms, against a plain reading of what they are."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from proton import Data, Described, Message, int32, symbol, ubyte, ulong

from tests.model.annotations import BODY, DELIVERY, HEADER, Story, encode, octets, read
from tests.support.native.hop import (
    IGNORED,
    MAP,
    NONE,
    OVERRIDE,
    SECTION,
    SEND_AFRESH,
    SEND_STREAM,
    SKUPPER,
    STREAM,
    Hop,
    RefusedError,
    build,
)


@pytest.fixture(scope="module")
def hop(tmp_path_factory: pytest.TempPathFactory) -> Hop:
    return build(tmp_path_factory.mktemp("hop"))


# ---- octet for octet ------------------------------------------------------------------------------------

MAP_EXAMPLE = bytes.fromhex(
    "005372c15408"
    "a30f782d6f70742d71642e73747265616d5401"
    "a30b782d6f70742d71642e746fa1027131"
    "a310782d6f70742d71642e696e6772657373a103302f41"
    "a30e782d6f70742d71642e7472616365c00601a103302f41"
)
SKUPPER_A = octets("0080534b50522d2d5241d00000001d000000045201a1027131a103302f41", "d00000000900000001a103302f41")
SKUPPER_B = bytes.fromhex("0080534b50522d2d5241c014045201a1027131a103302f41c00601a103302f41")
SKUPPER_C = bytes.fromhex("0080534b50522d2d5241d0000000080000000443404045")
SECTION_A = bytes.fromhex("0080ffffffff00002000c017045001b1000000027131a103302f41c00601a103302f41")
SECTION_C = bytes.fromhex("0080ffffffff00002000c00704500040a10045")


@pytest.mark.parametrize(("form", "front"), [(MAP, MAP_EXAMPLE), (SKUPPER, SKUPPER_A), (SECTION, SECTION_A)])
def test_the_first_router_signs(hop: Hop, form: int, front: bytes) -> None:
    """To q1, streaming, through router A: the worked examples of each form."""
    assert hop(BODY, form=form, to=b"q1", state=SEND_STREAM) == front + BODY


@pytest.mark.parametrize(("form", "front"), [(MAP, b""), (SKUPPER, SKUPPER_C), (SECTION, SECTION_C)])
def test_an_edge_router_does_not_sign(hop: Hop, form: int, front: bytes) -> None:
    """Neither ingress nor trace; a map without keys is none."""
    assert hop(BODY, form=form, router="") == front + BODY


@pytest.mark.parametrize("front", [SKUPPER_A, SKUPPER_B])
def test_the_second_router_signs_behind_the_first(hop: Hop, front: bytes) -> None:
    """Both list sizes are read, the long one is written; ingress and override stay."""
    second = octets(
        "0080534b50522d2d5241d000000022000000045201a1027131a103302f41", "d00000000e00000002a103302f41a103302f42"
    )
    assert hop(front + BODY, (SKUPPER,), SKUPPER, router="0/B") == second + BODY


@pytest.mark.parametrize(
    ("form", "front"), [(MAP, MAP_EXAMPLE), (SKUPPER, SKUPPER_A), (SKUPPER, SKUPPER_B), (SECTION, SECTION_A)]
)
@pytest.mark.parametrize("small", [False, True])
def test_clients_see_nothing_of_it(hop: Hop, form: int, front: bytes, small: bool) -> None:
    assert hop(front + BODY, (form,), NONE, small=small) == BODY


def test_a_section_keeps_what_a_later_version_may_add(hop: Hop) -> None:
    """Unknown flags and trailing fields go on as they are (spec, Extensions)."""
    came = bytes.fromhex("0080ffffffff00002000c01606508240a103302f41c00601a103302f41a1017854ff") + BODY
    went = octets("0080ffffffff00002000c01b06508240a103302f41", "c00b02a103302f41a103302f42a1017854ff") + BODY
    assert hop(came, (SECTION,), SECTION, router="0/B") == went


# ---- in every pair of forms -----------------------------------------------------------------------------

TEXT = st.text("abcdefgh/.é", max_size=12)
IDS = st.text("ABCDEFGH", min_size=1, max_size=30).map(lambda name: f"0/{name}") | st.just("0/" + "x" * 127)
KEY = st.text("abc", min_size=1, max_size=20).map(symbol) | st.integers(0, 300).map(ulong)
VALUES = TEXT | st.integers(0, 9).map(int32) | st.booleans() | st.none() | st.lists(TEXT, max_size=3)
VALUES |= st.binary(max_size=400)


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """Messages with and without each of it."""
    body, to, subject = draw(TEXT | st.binary(max_size=2000)), draw(st.none() | TEXT), draw(st.none() | TEXT)
    rest = bytes(Message(body=body, address=to, subject=subject).encode())
    size = Data().decode(rest)  # the header, which is made here
    before = draw(st.sampled_from((b"", encode(Described(ulong(HEADER), [True, ubyte(7)])))))
    if draw(st.booleans()):
        before += encode(Described(ulong(DELIVERY), {symbol("x-opt-here"): draw(VALUES)}))
    return Story(
        before=before,
        user=list(draw(st.dictionaries(KEY, VALUES, max_size=4)).items()),
        has_map=draw(st.booleans()),
        to=draw(st.none() | st.text("qwertz", min_size=1, max_size=8) | st.just("q" * 300)),
        ingress=draw(st.none() | IDS),
        trace=draw(st.lists(IDS, max_size=5) | st.lists(st.just("0/R"), min_size=300, max_size=300)),
        stream=draw(st.booleans()),
        rest=rest[size:],
    )


def expected(came: Story, form: int, router: str, to: str | None, state: int) -> Story:
    """The rules of facts 3.1."""
    if form == NONE:
        return replace(came, **NOTHING)
    afresh = state & SEND_AFRESH
    ingress, trace = (None, []) if afresh else (came.ingress, came.trace)
    ingress, trace = (ingress or router, [*trace, router]) if router else (None, [])
    stream = bool(came.stream or state & SEND_STREAM)
    return replace(came, to=to or came.to, ingress=ingress, trace=trace, stream=stream)


NOTHING: dict[str, Any] = {"to": None, "ingress": None, "trace": [], "stream": False}


@pytest.mark.parametrize("going", [NONE, MAP, SECTION, SKUPPER])
@pytest.mark.parametrize("coming", [NONE, MAP, SECTION, SKUPPER])
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_a_hop_in_every_pair_of_forms(hop: Hop, coming: int, going: int, data: st.DataObject) -> None:
    """Everything else stays as it is, octet for octet where no router key stands beside it."""
    came = data.draw(stories())
    if coming == NONE:
        came = replace(came, **NOTHING)
    router = data.draw(st.sampled_from(("0/A", "", "0/" + "y" * 127)))
    to = data.draw(st.none() | st.text("asdf", min_size=1, max_size=20) | st.just("p" * 4096))
    state = data.draw(st.sampled_from((0, 3, SEND_STREAM, SEND_STREAM | SEND_AFRESH | 9)))
    more = {"small": data.draw(st.booleans()), "step": data.draw(st.sampled_from((0, 0, 1, 7, 100)))}
    sent = came.encoded(coming)
    got = hop(sent, (coming,) if coming else (), going, router, (to or "").encode(), state, **more)
    wanted = expected(came, going, router, to, state)
    story, phase = read(got, going)
    assert phase == (state & 15 if going in (MAP, SECTION) else 0)
    assert replace(story, has_map=False) == replace(wanted, has_map=False)
    if going == coming == NONE:
        assert got == sent


@given(data=st.data(), going=st.sampled_from((NONE, MAP, SECTION, SKUPPER)))
@settings(max_examples=200, deadline=None)
def test_nobody_else_may_speak_for_routers(hop: Hop, going: int, data: st.DataObject) -> None:
    """A client's keys, and skrouterd's section, are not trusted and not passed on; ours is refused."""
    came, form = data.draw(stories()), data.draw(st.sampled_from((MAP, SECTION, SKUPPER)))
    sent = came.encoded(form)
    if form == SECTION:
        with pytest.raises(RefusedError, match="amqp:not-allowed"):
            hop(sent, form=going)
        return
    story, _ = read(hop(sent, form=going), going)
    wanted = expected(replace(came, **NOTHING), going, "0/A", None, 0)
    assert replace(story, has_map=False) == replace(wanted, has_map=False)
    assert hop.passed.annotations == NONE
    spoke = form == SKUPPER or sent != replace(came, **NOTHING).encoded(NONE)
    assert bool(hop.passed.routed & IGNORED) == spoke


# ---- what the core is told ------------------------------------------------------------------------------


@given(came=stories(), form=st.sampled_from((MAP, SECTION, SKUPPER)), small=st.booleans())
@settings(max_examples=200, deadline=None)
def test_the_core_is_told_what_came(hop: Hop, came: Story, form: int, small: bool) -> None:
    hop(came.encoded(form), (form,), small=small)
    told = hop.passed
    said = form != MAP or any((came.stream, came.to, came.ingress, came.trace))
    assert told.annotations == (form if said else NONE)
    assert bool(told.routed & STREAM) == came.stream
    assert bool(told.routed & OVERRIDE) == (came.to is not None)
    assert told.ingress_length == len(came.ingress or "")
    assert told.trace_count == len(came.trace)
    assert told.user_count == 2 * len(came.user)
