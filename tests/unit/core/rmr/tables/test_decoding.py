"""What RMR's control path makes of octets that are no text and of numbers that are none, field by field."""

from pathlib import Path

import msgspec
import pytest

from core.rmr.active.intake import Feed, Intake, Made, Values
from core.rmr.active.snapshot import Kept, read
from core.rmr.active.snapshot import Use as Stashed
from core.rmr.managers.envelope import sealed
from core.rmr.managers.messages import REQUEST, STATE, TABLE, Said, requester, state_of
from core.rmr.managers.remembered import Remembered
from core.rmr.tables import decoding
from core.rmr.tables.parser import Parser
from tests.support.beds.rmr.manager_session import GOOD, World, content
from tests.support.beds.rmr.stream import Bed
from tests.support.values.table_use import Use

LONG = b"9" * 5000
BAD = {
    "an octet": b"\xff:4560",
    "a surrogate": b"\xed\xa0\x80:4560",
    "Latin-1": b"K\xf6ln:4560",
    "a control character": b"a\x01b:4560",
}
NAMES = [pytest.param(name, id=what) for what, name in BAD.items()]


@pytest.mark.parametrize("compatible", [False, True])
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"newrt|start|K\xf6ln\nmse|1|-1|a:1\nnewrt|end|1\n", "is not UTF-8 (octet 0xf6)"),
        (b"newrt|start|" + b"x" * 300 + b"\nmse|1|-1|a:1\nnewrt|end|1\n", "is longer than 255 octets"),
        (b"newrt|start|a\x1b[2J\nmse|1|-1|a:1\nnewrt|end|1\n", "has a control character (octet 0x1b)"),
        (b"updatert|start|\xff\nmse|1|-1|a:1\nupdatert|end|1\n", "is not UTF-8 (octet 0xff)"),
        (b"newrt|start|a\nmse|1|-1|\xed\xa0\x80:1\nnewrt|end|1\n", "is not UTF-8 (octet 0xed)"),
        (b"newrt|start|a\nmse|1,\xff:1|-1|a:1\nnewrt|end|1\n", "is not UTF-8 (octet 0xff)"),
        (b"newrt|start|a\nmse|1|-1|" + b"x" * 300 + b":1\nnewrt|end|1\n", "is longer than 260 octets"),
        (b"newrt|start|a\nmse|1|-1|" + b"a:1," * (1 << 18) + b"\nnewrt|end|1\n", "longer than 1048576"),
        (b"meid_map|start|\xff\nmme_ar|a:1|x\nmeid_map|end|1\n", "is not UTF-8 (octet 0xff)"),
        (b"meid_map|start|m\nmme_ar|\xff:1|x\nmeid_map|end|1\n", "is not UTF-8 (octet 0xff)"),
    ],
    ids=str,
)
def test_a_table_with_a_name_that_is_no_text_is_refused_by_its_id(text: bytes, reason: str, compatible: bool) -> None:
    """However it is read; its sender gets the octets of its id back, and the next table is read as ever."""
    bed = Bed(compatible)
    (said,) = bed.send(text)
    assert reason in said
    table_id = text.partition(b"\n")[0].split(b"|")[2]
    assert bed.said[-1].payload.startswith(b"ERR " + table_id)
    assert bed.told[-1][1]
    (bed.told[-1][0] + bed.told[-1][1]).encode()  # for the log, JSON and AMQP
    assert bed.entries == []
    assert bed.send(GOOD) == ["OK t1 \n\0"]


@pytest.mark.parametrize("number", [LONG, b"-" + LONG, b"1" * 65, "\u0661".encode()], ids=str)
@pytest.mark.parametrize("record", [b"mse|%b|-1|a:1", b"mse|1|%b|a:1", b"rte|1|a:1|%b", b"del|%b|1"])
def test_a_number_of_any_length_is_a_warning(record: bytes, number: bytes) -> None:
    """Read strictly the table is refused; as the library does, the nearest number stands for it."""
    text = b"newrt|start|a\n" + record % number + b"\nnewrt|end|1\n"
    (said,) = Bed().send(text)
    assert said.startswith("ERR a line 2: ")
    assert Bed(True).send(text) == ["OK a \n\0"]


def test_a_record_count_of_any_length_is_a_wrong_one() -> None:
    (said,) = Bed().send(b"newrt|start|a\nmse|1|-1|a:1\nnewrt|end|" + LONG + b"\n")
    assert said.startswith("ERR a ")


def test_a_managed_entity_may_have_any_octets(tmp_path: Path) -> None:
    """It is owned, written for applications, and kept for the next core, octet for octet."""
    bed = Bed()
    assert bed.send(b"meid_map|start|m\nmme_ar|a:1|\xff\xfe K\xf6ln\nmme_del|\xed\xa0\x80\nmeid_map|end|2\n") == [
        "OK m \n\0"
    ]
    owned = {b"\xff\xfe": "a:1", b"K\xf6ln": "a:1"}
    assert {decoding.octets_of(meid): owner for meid, owner in bed.use.owners.items()} == owned
    intake = Intake(lambda: None)
    path = tmp_path / "stash"
    intake.keep(str(path), Stashed(Kept("rt", map_id="m"), bed.use.table, bed.use.owners))
    intake.close()
    _, text = read(path)
    (again,) = Parser().feed(text.partition("\n")[2])
    assert Use().apply(again).owners == bed.use.owners  # type: ignore[arg-type]  # a map
    assert b"mme_ar|a:1|\xff\xfe K\xf6ln" in path.read_bytes()


def test_comments_may_have_any_octets() -> None:
    assert Bed().send(b"# K\xf6ln\nnewrt|start|a # \xff\nmse|1|-1|a:1 # \xfe\nnewrt|end|1\n") == ["OK a \n\0"]


@pytest.mark.parametrize("name", NAMES)
def test_a_request_of_somebody_without_a_proper_name_is_dropped_and_said(
    name: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Whether it stands in the message or in its header: the line names the field and the peer; many, one."""
    world = World(serve=True)
    world.connect(1, "10.0.0.9:5")
    for _ in range(20):
        assert world.say(1, REQUEST, name + b" ts=1\n\0", source="app:4561") == []
        assert world.say(1, REQUEST, b"app:4560 ts=1\n\0", source=decoding.lossless(name)) == []
    assert list(world.session.server or ()) == []
    lines = [one.getMessage() for one in caplog.records]
    assert len(lines) == 1
    assert "a control message from 10.0.0.9 was dropped: the request's first word" in lines[0]
    world.say(1, REQUEST, b"app:4560 ts=1\n\0", source="app:4561")
    assert [one.endpoint for one in world.session.server or ()] == ["app:4560"]


@pytest.mark.parametrize("name", NAMES)
def test_a_table_of_somebody_without_a_proper_name_is_refused(name: bytes) -> None:
    world = World(push_from=("10.0.0.0/8",))
    world.connect(1, "10.0.0.9:5")
    ((_, frame),) = world.say(1, TABLE, GOOD, source=decoding.lossless(name))
    assert frame.message_type == STATE
    assert frame.payload.startswith(b"ERR t1 its source ")
    assert world.refusals
    "".join(world.refusals).encode()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", [TABLE, REQUEST, STATE, 23])
def test_no_octets_of_a_control_message_end_the_core(kind: int, name: bytes) -> None:
    """As a manager's, an application's and a stranger's, in every field that there is."""
    for settings in ({"serve": True}, {"manager": "rm:1"}, {}):
        world = World(**settings)  # type: ignore[arg-type]  # as a test gives them
        world.connect(1, "10.0.0.9:5", "rm:1")
        for payload in (name, LONG, b"ERR " + name, b"OK t1 " + LONG, b"newrt|start|" + name, b"", b"\0", b"|"):
            world.say(1, kind, payload, source=decoding.lossless(name[:63]))
            world.say(1, kind, payload)
        world.run(100)


def test_the_reason_of_an_application_is_shown_with_escapes() -> None:
    state = state_of(b"ERR t1 \xff\xed\xa0\x80 \x1b[2J\n\0")
    assert state is not None
    assert state.about == r"t1 \xff\xed\xa0\x80 \x1b[2J"
    longest = state_of(b"ERR t1 " + LONG * 100)
    assert longest is not None
    assert len(longest.about) < 700


def test_a_request_without_a_name_is_one_of_nobody() -> None:
    assert [requester(one) for one in (b"", b"\0\xff", b" \n\0", b"a:1")] == ["", "", "", "a:1"]
    with pytest.raises(decoding.DecodingError, match="is longer than 260 octets"):
        requester(b"x" * (64 << 10))


def test_applications_that_nobody_can_have_written_are_not_remembered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "applications"
    path.write_bytes(
        msgspec.json.encode(
            [
                ("a:1", "a:2", ""),
                ("b:1", "\n", ""),
                ("\x1b", "c:2", ""),
                ("", "d:" + "9" * 5000, ""),
                ("e:1", "e:2", "x"),
            ]
        )
    )
    assert Remembered(str(path)).load() == [("a:1", "a:2", "")]
    assert "4 of its applications have no host:port" in caplog.text


def test_a_seed_that_is_no_table_leaves_the_thread_of_tables_at_work(tmp_path: Path) -> None:
    """A seed in Latin-1 is refused with line and octet, and the next text is taken in."""
    made: list[Made] = []
    intake = Intake(lambda: None)
    seed = tmp_path / "seed"
    seed.write_bytes(b"newrt|start|K\xf6ln\r\nmse|1|-1|a:1\r\nnewrt|end|1\r\n")
    feed = Feed(Values(1), "seed", False, lambda _: None)
    intake.put(feed, seed, True)
    intake.put(Feed(feed.values, "push", False, lambda _: None), GOOD.decode(), True)
    intake.close()
    made += intake.made
    assert [one.outcomes[0].ok for one in made] == [False, True]
    assert made[0].outcomes[0].reason.startswith("line 1: the start record or its id is not UTF-8 (octet 0xf6)")


def test_a_frame_keeps_the_octets_that_it_came_with() -> None:
    assert b"\xf6:1" in sealed(Said(STATE, b"", decoding.lossless(b"\xf6:1")), "h:1")
    assert content(TABLE, b"")


def test_a_text_that_the_router_fails_at_is_answered_and_the_next_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of ours: the sender is told ERR, the connection stays, and nothing waits behind it for ever."""
    world = World(push_from=("10.0.0.0/8",))
    world.connect(1, "10.0.0.9:5")
    with monkeypatch.context() as patch:
        patch.setattr(Parser, "feed", lambda *_: 1 / 0)
        ((_, frame),) = world.say(1, TABLE, GOOD)
    assert frame.payload.startswith(b"ERR <id-missing> ZeroDivisionError in the router, whose log says more")
    ((_, frame),) = world.say(1, TABLE, GOOD)
    assert frame.payload == b"OK t1 \n\0"
