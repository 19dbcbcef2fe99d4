"""Router annotations that lie: refused with a reason, and whatever is not the routers' goes on as it was."""

import pytest

from tests.model.annotations import BODY, octets, read
from tests.support.native.hop import MAP, OVERRIDE, SECTION, SKUPPER, Hop, RefusedError, build
from tests.support.values.spelled import SPELLINGS, descriptor


@pytest.fixture(scope="module")
def hop(tmp_path_factory: pytest.TempPathFactory) -> Hop:
    return build(tmp_path_factory.mktemp("hop"))


FOUR = "520140a103302f41"  # flags, no override, ingress
ROUTERS = "782d6f70742d71642e"  # x-opt-qd.


def skupper(fields: str, count: int) -> bytes:
    size = len(fields) // 2 + 4
    return octets("0080534b50522d2d5241d0", f"{size:08x}{count:08x}", fields) + BODY


def router_map(items: str, count: int) -> bytes:
    return octets("005372d1", f"{len(items) // 2 + 4:08x}{count:08x}", items) + BODY


def key(name: str) -> str:
    return f"a3{9 + len(name):02x}{ROUTERS}{name.encode().hex()}"


def trace(entries: str, count: int) -> str:
    return f"d0{len(entries) // 2 + 4:08x}{count:08x}{entries}"


WRONG = {
    "three fields": skupper(FOUR, 3),
    "a field less than it says": skupper(FOUR + "45", 5),
    "a field more than it says": skupper(FOUR + "4540", 4),
    "4294967295 fields": skupper(FOUR + "45", 2**32 - 1),
    "flags that are text": skupper("a10178" + FOUR[4:] + "45", 4),
    "flags that are an ubyte": skupper("5001" + FOUR[4:] + "45", 4),
    "an override that is a number": skupper("52015201a103302f4145", 4),
    "an override of 5000 octets": skupper("5201b100001388" + "41" * 5000 + "4045", 4),
    "an ingress that is a symbol": skupper("520140a303302f4145", 4),
    "an ingress that is no UTF-8": skupper("520140a103302fff45", 4),
    "an ingress of 256 octets": skupper("520140b100000100" + "41" * 256 + "45", 4),
    "a trace that is text": skupper(FOUR + "a103302f41", 4),
    "a trace that is null": skupper(FOUR + "40", 4),
    "a trace cut short": skupper(FOUR + trace("a103302f", 1), 4),
    "a trace with one entry less than it says": skupper(FOUR + trace("a103302f41", 2), 4),
    "a trace with one entry more than it says": skupper(FOUR + trace("a103302f41a103302f41", 1), 4),
    "a trace whose size lies": skupper(FOUR + "d0000000ff00000001a103302f41", 4),
    "a trace of 4294967295 entries": skupper(FOUR + trace("", 2**32 - 1), 4),
    "a trace of 10,000 entries": skupper(FOUR + trace("a103302f41" * 10_000, 10_000), 4),
    "a trace of 1 MiB": skupper(FOUR + trace(("a1ff" + "41" * 255) * 1000, 1000), 4),
    "a trace entry that is a number": skupper(FOUR + trace("5201", 1), 4),
    "a trace entry that is a surrogate": skupper(FOUR + trace("a103eda080", 1), 4),
    "a trace entry of 256 octets": skupper(FOUR + trace("b100000100" + "41" * 256, 1), 4),
    "an odd map": router_map(key("to") + "a10171" + key("to"), 3),
    "a map with an entry less than it says": router_map(key("to") + "a10171", 4),
    "a map with an entry more than it says": router_map(key("to") + "a10171" * 3, 2),
    "a map of 4294967294 items": router_map("", 2**32 - 2),
    "a key without value": router_map(key("to"), 2),
    "a key twice": router_map((key("to") + "a10171") * 2, 4),
    "x-opt-qd.to that is a number": router_map(key("to") + "5201", 2),
    "x-opt-qd.to that is no UTF-8": router_map(key("to") + "a102c328", 2),
    "x-opt-qd.ingress that is a list": router_map(key("ingress") + "45", 2),
    "x-opt-qd.trace that is text": router_map(key("trace") + "a10171", 2),
    "x-opt-qd.trace with a number": router_map(key("trace") + trace("a103302f415201", 2), 2),
    "x-opt-qd.trace of 10,000 entries": router_map(key("trace") + trace("a103302f41" * 10_000, 10_000), 2),
}


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_refused(hop: Hop, wrong: bytes, small: bool) -> None:
    """A sender that lies gets its message back; nothing is lost, and the next one passes."""
    with pytest.raises(RefusedError, match="amqp:invalid-field"):
        hop(wrong, (MAP, SKUPPER), SKUPPER, small=small)
    assert hop(BODY, (MAP, SKUPPER)) == BODY


NAME = b"skupper:router-annotations"
NAMED = {"short": b"\0\xa3\x1a" + NAME, "long": b"\0\xb3\0\0\0\x1a" + NAME}


@pytest.mark.parametrize("step", [0, 1, 7])
@pytest.mark.parametrize("front", NAMED.values(), ids=NAMED)
def test_a_section_by_its_name_is_the_section(hop: Hop, front: bytes, step: int) -> None:
    """A client may not send it by name either; from a router it is understood, and goes on by number."""
    fields = octets("c017045001b1000000027131a103302f42c00601a103302f42")
    with pytest.raises(RefusedError, match="amqp:not-allowed"):
        hop(front + fields + BODY, step=step)
    sent = hop(front + fields + BODY, (SECTION,), SECTION, step=step)
    assert sent == hop(octets("0080ffffffff00002000") + fields + BODY, (SECTION,), SECTION)
    assert read(sent, SECTION)[0].trace == ["0/B", "0/A"]


@pytest.mark.parametrize("front", [descriptor(0x72, form) for form in SPELLINGS])
def test_router_keys_count_however_their_section_is_spelled(hop: Hop, front: bytes) -> None:
    """Trusted from a router, taken off of a client's message."""
    sent = router_map(key("to") + "a10171" + "a101755401", 4).replace(octets("005372"), front, 1)
    assert hop(sent) == octets("005372c10602a101755401") + BODY
    hop(sent, (MAP,))
    assert hop.passed.routed & OVERRIDE


def test_our_own_form_is_stricter(hop: Hop) -> None:
    """Its flags are one octet, its router ids short strings (spec, Encoding)."""
    for fields in ("c006045201404045", "c0100450014040c00901b100000003302f41"):
        front = octets("0080ffffffff00002000", fields)
        with pytest.raises(RefusedError, match="amqp:invalid-field"):
            hop(front + BODY, (SECTION,))


@pytest.mark.parametrize("value", ["a0020000", "c10100", "5201", "40"])
def test_a_section_that_is_no_list(hop: Hop, value: str) -> None:
    with pytest.raises(RefusedError, match="amqp:decode-error"):
        hop(octets("0080534b50522d2d5241", value) + BODY, (SKUPPER,))


def test_annotations_longer_than_a_mebibyte(hop: Hop) -> None:
    """What stands in front of a message is read up to 1 MiB, whoever sends it."""
    trace_of_all = skupper(FOUR + trace("a103302f41" * 230_000, 230_000), 4)
    for message in (trace_of_all, router_map("a10171b000100001" + "00" * (2**20 + 1), 2)):
        with pytest.raises(RefusedError):
            hop(message, (MAP, SKUPPER))
    sent = router_map("a10171b000080000" + "78" * 2**19 + key("to") + "a10171", 4)
    for small in (False, True):
        story, _ = read(hop(sent, (MAP,), SECTION, small=small), SECTION)
        assert story.to == "q"
        assert story.user == [("q", b"x" * 2**19)]


def test_a_phase_that_is_none_is_no_phase(hop: Hop) -> None:
    """Whole numbers of all types from 0 to 9; else the message goes on without."""
    seven = ("5407", "5507", "5207", "5307", "5007", "600007", "610007", "7100000007", "800000000000000007")
    values = dict.fromkeys(seven, 7)
    values |= {"43": 0, "540a": 0, "54ff": 0, "7100000107": 0, "a10137": 0, "5607": 0, "41": 0}
    for value, phase in values.items():
        hop(router_map(key("phase") + value, 2), (MAP,))
        assert hop.passed.phase == phase, value


def test_what_is_obsolete_is_not_passed_on(hop: Hop) -> None:
    """x-opt-qd.class and the bare prefix (facts 3.1); a key of nobody's that begins so is the user's."""
    kept = key("mine") + "5201"
    sent = router_map(key("class") + "5209" + key("") + "a10158" + kept, 6)
    assert hop(sent, (MAP,)) == octets("005372c1", f"{len(kept) // 2 + 1:02x}02", kept) + BODY


@pytest.mark.parametrize("trusted", [(), (MAP,)])
def test_a_message_of_router_keys_alone_does_not_become_an_empty_one(hop: Hop, trusted: tuple[int, ...]) -> None:
    """Its annotations go on without them; the next router takes that, and not an empty message."""
    alone = router_map(key("to") + "a10171", 2).removesuffix(BODY)
    sent = hop(alone, trusted)
    assert sent == octets("005372c10100")
    assert hop(sent) == sent


def test_entries_of_users_stay_wherever_they_stand(hop: Hop) -> None:
    """Between router keys and behind them, in their order."""
    one, two, three = ("a1016f5201", "a10174a0" + "02ffff", "a3016240")
    mixed = router_map(one + key("to") + "a10171" + two + key("stream") + "5401" + three, 10)
    sorted_ = octets("005372c1", f"{len(one + two + three) // 2 + 1:02x}06", one, two, three) + BODY
    for trusted in ((), (MAP,)):
        for small in (False, True):
            assert hop(mixed, trusted, small=small) == sorted_
