"""Tables that come in messages: what is installed, what is acknowledged and how, rule by rule."""

import tracemalloc
from collections.abc import Callable

import pytest

from core.rmr.managers.client import ACCEPTED, AWAY, REFUSED, REQUESTING, Client
from core.rmr.managers.messages import LONGEST_START, REQUEST, STATE, TABLE, Heard, Said, refusal, requester, state_of
from core.rmr.managers.stream import CUT, FULL, MESSAGE, NO_BASE, SLICE
from core.rmr.tables.building import KEPT
from tests.support.beds.effort import Effort
from tests.support.beds.rmr.stream import Bed

S = 1_000_000_000
GOOD = "newrt|start|t1\nmse|1|-1|a:1\nnewrt|end|1\n"


def test_a_table_is_installed_and_acknowledged() -> None:
    """OK, the id, a blank, newline, NUL; MT 22, no subscription, the transaction id of the message."""
    bed = Bed()
    assert bed.send(GOOD, xact=b"abc", call=7) == ["OK t1 \n\0"]
    (said,) = bed.said
    assert (said.kind, said.subscription, said.xact, said.call) == (STATE, -1, b"abc", 7)
    assert bed.entries == ["mse|1|-1|a:1"]


def test_a_table_without_an_id() -> None:
    """`<id-missing>` stands for it."""
    assert Bed().send("newrt|start\nnewrt|end\n") == ["OK <id-missing> \n\0"]


def test_a_wrong_count_is_said_in_the_words_of_the_library() -> None:
    """Two line ends: this reason brings its own."""
    bed = Bed()
    assert bed.send("newrt|start|tbl-B\nmse|1|-1|a:1\nnewrt|end|9\n") == [
        "ERR tbl-B missing table records: expected 9 got 1\n\n\0"
    ]
    assert bed.use.table is None


def test_a_start_record_in_an_open_table_is_an_error_about_the_former() -> None:
    """Two tables at once: the first is lost, the second may become one."""
    bed = Bed()
    assert bed.send("newrt|start|n1\nmse|1|-1|a:1\nnewrt|start|n2\nmse|2|-1|a:1\nnewrt|end|1\n") == [
        "ERR n1 table not complete\n\0",
        "OK n2 \n\0",
    ]
    assert bed.entries == ["mse|2|-1|a:1"]


def test_only_the_first_answer_to_a_message_ends_a_blocking_call() -> None:
    """A second one with the call's id would be taken for the answer to another call."""
    bed = Bed()
    bed.send(GOOD + "meid_map|start|m\nmme_ar|a:1|x\nmeid_map|end|1\n", xact=b"abc", call=5)
    assert [(said.xact, said.call) for said in bed.said] == [(b"abc", 5), (b"abc", 0)]
    bed.send(GOOD, xact=b"def", call=6)
    assert (bed.said[-1].xact, bed.said[-1].call) == (b"def", 6)


def test_a_table_may_come_in_any_number_of_messages() -> None:
    """Records are a stream; nothing is said before the end record has come."""
    bed = Bed()
    assert bed.send("newrt|start|t\n", "mse|1|-1|a:1\nmse|2|-1|b:1\n", "", "# nothing\n") == []
    assert bed.use.table is None
    assert bed.send("newrt|end|2\n") == ["OK t \n\0"]


def test_a_record_ends_with_its_message() -> None:
    """Records never span messages: what follows is another record."""
    bed = Bed()
    assert bed.send("newrt|start|t", "mse|1|-1|a:1\0", "newrt|end|1\0\0") == ["OK t \n\0"]
    assert bed.send("newrt|start|u\nmse|1|-1|", "b:1\nnewrt|end|1\n")[0].startswith("ERR u line 2: ")
    assert bed.entries == ["mse|1|-1|a:1"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_all_three_record_ends(end: str) -> None:
    """Spec, Line separation."""
    assert Bed().send(GOOD.replace("\n", end)) == ["OK t1 \n\0"]


def test_a_bad_table_leaves_the_old_one_and_says_line_and_reason() -> None:
    """Read strictly, anything odd spoils the table."""
    bed = Bed()
    bed.send(GOOD)
    (said,) = bed.send("newrt|start|t2\nmse|abc|-1|a:1\nnewrt|end|1\n")
    assert said == "ERR t2 line 2: message type is no number: 'mse|abc|-1|a:1'\n\0"
    assert bed.entries == ["mse|1|-1|a:1"]


def test_read_as_the_library_does_oddities_are_no_errors() -> None:
    """`abc` is 0; a NUL ends the text."""
    bed = Bed(compatible=True)
    assert bed.send("newrt|x|t\nmse|abc|-1|a:1\nnewrt|end|1\n\0mse|rubbish") == ["OK t \n\0"]
    assert bed.entries == ["mse|0|-1|a:1"]


def test_records_outside_of_any_table_are_answered_too() -> None:
    """The library says nothing, and its manager waits for ever."""
    bed = Bed()
    assert bed.send("mse|1|-1|a:1\n")[0].startswith("ERR <id-missing> line 1: an entry outside of any table")
    assert bed.send("newrt|end\n")[0].startswith("ERR <id-missing> line 1: an end record without")
    assert bed.send("# a comment\n", "\n", "\0", "") == []


def test_an_update_without_a_table_of_a_manager_is_refused_with_a_reason() -> None:
    """A seed table does not count; nothing of the update is used, and a whole table still is."""
    bed = Bed(based=False)
    update = "updatert|start|u\nmse|1|-1|b:1\nupdatert|end|1\n"
    assert bed.send(update) == [f"ERR u {NO_BASE}\n\0"]
    assert bed.use.table is None
    bed.send(GOOD)
    bed.based = True
    assert bed.send(update) == ["OK u \n\0"]


def test_a_map_is_acknowledged_by_itself_and_its_md5_is_verified() -> None:
    """The library never computes it."""
    bed = Bed()
    (said,) = bed.send("meid_map|start|m1\nmme_ar|a:1|x\nmeid_map|end|1|0123\n")
    assert said.startswith("ERR m1 line 3: the MD5 of the records is ")
    md5 = said.split("records is ")[1].split(":")[0]
    assert bed.use.owners == {}
    assert bed.send(f"meid_map|start|m1\nmme_ar|a:1|x\nmeid_map|end|1|{md5}\n") == ["OK m1 \n\0"]
    assert bed.use.owners == {"x": "a:1"}
    assert bed.send("meid_map|start|m2\nmme_del|x\nmeid_map|end|2\n")[0].startswith("ERR m2 missing table records")
    assert bed.use.owners == {"x": "a:1"}


def test_a_table_cut_short_by_a_lost_connection_is_forgotten() -> None:
    """The old one stays; whoever connects next begins anew."""
    bed = Bed()
    bed.send(GOOD, "newrt|start|t2\nmse|9|-1|a:1\n")
    bed.stream.lost()
    assert bed.stream.finished
    assert bed.told == [("t1", ""), ("t2", CUT)]
    assert bed.entries == ["mse|1|-1|a:1"]
    assert len(bed.said) == 1


def test_what_came_before_the_connection_was_lost_is_used() -> None:
    """It is complete; only nobody hears of it."""
    bed = Bed()
    bed.stream.message(Heard(TABLE, "rm:1", GOOD.encode(), "conn"))
    bed.stream.lost()
    assert not bed.stream.finished
    while bed.stream.busy:
        bed.stream.step()
    assert bed.stream.finished
    assert bed.entries == ["mse|1|-1|a:1"]
    assert bed.said == []


def test_a_manager_that_repeats_itself_is_answered_each_time() -> None:
    """It may have lost the answer."""
    bed = Bed()
    assert bed.send(GOOD, GOOD, GOOD) == ["OK t1 \n\0"] * 3


def test_an_installation_that_takes_time_is_acknowledged_when_it_is_done() -> None:
    """What comes behind it waits, and keeps its order."""
    bed = Bed()
    bed.later = []
    assert bed.send(GOOD + "newrt|start|t2\nnewrt|end\n", "meid_map|start|m\nmeid_map|end|0\n") == []
    for expected in ("OK t1 \n\0", "OK t2 \n\0", "OK m \n\0"):
        (finish,) = bed.later
        bed.later.clear()
        finish()
        while bed.stream.busy:
            bed.stream.step()
        assert bed.said[-1].payload.decode() == expected
    assert len(bed.said) == 3


def test_a_table_that_cannot_be_installed_is_an_error() -> None:
    """With the reason of who installs."""
    bed = Bed()
    bed.refuses = "more than 100 endpoints"
    assert bed.send(GOOD) == ["ERR t1 more than 100 endpoints\n\0"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_long_messages_are_read_slice_by_slice(end: str) -> None:
    """Routing goes on meanwhile, wherever records end and however long one is."""
    bed = Bed()
    lines = [f"mse|{number}|-1|a:1" for number in range(20_000)]
    lines[7] = "mse|7|-1|a:1" + " " * (2 * SLICE)
    payload = end.join(["newrt|start|t", *lines, "newrt|end|20000"])
    bed.stream.message(Heard(TABLE, "rm:1", payload.encode(), "conn"))
    steps = 0
    while bed.stream.busy:
        bed.stream.step()
        steps += 1
    assert steps >= len(payload) // SLICE
    assert bed.said[0].payload == b"OK t \n\0"
    assert len(bed.entries) == 20_000


def test_ten_thousand_entries_are_acknowledged_fast() -> None:
    """Native code reads them: Python runs fewer than two lines for each."""
    bed = Bed()
    lines = (f"mse|{number}|-1|host{number % 100}.example.org:4560" for number in range(10_000))
    payload = "\n".join(["newrt|start|t", *lines, "newrt|end|10000", ""])
    with Effort() as effort:
        assert bed.send(payload) == ["OK t \n\0"]
    assert effort.lines < 2 * 10_000


def test_the_id_of_a_table_that_nobody_read() -> None:
    """Who may not push is told which table was not used."""
    assert refusal(b"# hello\nnewrt | begin | my table # x\nmse|1|1|a:1\nnewrt|end|1\n", "no").table_id == "my table"
    assert refusal(b"meid_map|start\n", "no").table_id == ""
    assert refusal(b"newrt|end|7\n", "no").table_id == ""
    for lines, found in ((LONGEST_START // 2 - 20, "t"), (LONGEST_START, "")):  # no search through megabytes
        assert refusal(b"#\n" * lines + b"newrt|start|t\n", "no").table_id == found


def test_states_are_read_with_ids_that_have_blanks_in_them() -> None:
    """Splitting words does not find them."""
    state = state_of(b"ERR my table missing table records: expected 9 got 1\n\n\0")
    assert state is not None
    assert not state.ok
    assert state.names("my table")
    assert not state.names("my tab")
    assert state.reason("my table") == "missing table records: expected 9 got 1"
    assert state_of(b"hello\0") is None


# ---- the client ----


class Asker:
    """A client whose manager is there or not."""

    def __init__(self) -> None:
        self.sent: list[Said] = []
        self.there = True
        self.client = Client("rm:4561", "me:4560", 5, self.send, lambda: 1700000000)

    def send(self, said: Said) -> bool:
        if self.there:
            self.sent.append(said)
        return self.there

    def run(self, start: int, seconds: int) -> int:
        """So many requests within a time."""
        before = len(self.sent)
        for tenth in range(seconds * 10):
            self.client.step(start * S + tenth * S // 10)
        return len(self.sent) - before


def test_a_request_says_where_we_listen_and_when() -> None:
    """MT 21, subscription 0, text, newline, NUL."""
    asker = Asker()
    asker.client.connected(0)
    asker.client.step(0)
    (said,) = asker.sent
    assert said == Said(REQUEST, b"me:4560 ts=1700000000\n\0", "me:4560", 0)
    assert requester(said.payload) == "me:4560"
    assert requester(b"\0") == ""


def test_it_asks_until_a_table_is_accepted() -> None:
    """Not until something has come: errors, maps and updates do not end it."""
    asker = Asker()
    client = asker.client
    assert asker.run(0, 10) == 0
    client.connected(10 * S)
    assert asker.run(10, 10) == 2
    client.table("t", "missing table records: expected 9 got 1", True, 20 * S)
    assert (client.state, client.reason) == (REFUSED, "missing table records: expected 9 got 1")
    client.table("m", "", False, 20 * S)
    assert asker.run(20, 10) == 2
    client.table("t", "", True, 30 * S)
    assert (client.state, client.reason, client.since) == (ACCEPTED, "", 30 * S)
    assert asker.run(30, 100) == 0


def test_it_asks_again_when_the_manager_comes_back() -> None:
    """It may have another table by now."""
    asker = Asker()
    client = asker.client
    client.connected(0)
    client.step(0)
    client.table("t", "", True, S)
    client.lost(2 * S)
    assert client.state == AWAY
    assert asker.run(2, 20) == 0
    client.connected(30 * S)
    assert client.state == REQUESTING
    assert asker.run(30, 1) == 1


@pytest.mark.parametrize("reason", ["", "table not complete"])
def test_a_table_that_is_read_after_the_connection_was_lost_connects_nobody(reason: str) -> None:
    """It is taken into use; the manager is away all the same, and is asked when it comes back."""
    asker = Asker()
    client = asker.client
    client.connected(0)
    client.lost(S)
    client.table("t", reason, True, 2 * S)
    assert (client.state, client.since, client.table_id) == (AWAY, S, "t")
    assert asker.run(2, 20) == 0
    client.connected(30 * S)
    assert asker.run(30, 1) == 1


def test_a_bad_update_does_not_make_it_ask() -> None:
    """Its table is in use still; the next good one makes up for it."""
    asker = Asker()
    client = asker.client
    client.connected(0)
    client.table("t", "", True, 0)
    client.table("u", "table not complete", False, S)
    assert client.state == REFUSED
    assert asker.run(2, 60) == 0
    client.table("u", "", False, 100 * S)
    assert client.state == ACCEPTED


def waiting(bed: Bed, payload: bytes, messages: int) -> int:
    """Messages that nobody has time to parse yet; how many of them are refused."""
    before = len(bed.told)
    for _ in range(messages):
        bed.stream.message(Heard(TABLE, "rm:1", payload, "conn"))
    told = bed.told[before:]
    assert set(told) <= {("", FULL)}
    return len(told)


def test_messages_without_text_take_room_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The core reads one message in a step: empty ones would wait without a limit."""
    monkeypatch.setattr("core.rmr.managers.stream.LONGEST_QUEUE", 10 * MESSAGE)
    bed = Bed()
    assert waiting(bed, b"", 15) == 5
    bed.send("")
    assert bed.held.octets == 0
    assert bed.send(GOOD) == ["OK t1 \n\0"]


def test_senders_of_tables_leave_room_to_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many connections with tables that never end would fill the core; one more still gets its table in."""
    monkeypatch.setattr("core.rmr.managers.stream.MOST_HELD", 64 * MESSAGE)
    first = Bed()
    beds = [first, *(Bed(held=first.held) for _ in range(20))]
    begun = b"newrt|start|t\n" + b"mse|1|-1|a:1\n" * 500
    refused = [waiting(bed, begun, 10) for bed in beds]
    assert 0 < refused[0] < refused[1]
    assert first.held.octets < 64 * MESSAGE
    for bed in beds:
        bed.send()
        while bed.stream.busy:
            bed.stream.step()
        bed.stream.lost()
    assert first.held.octets == 0
    assert Bed(held=first.held).send(GOOD) == ["OK t1 \n\0"]


NAMES = "meid_map|start|m\n" + "".join(f"mme_ar|a:1|m{number}\n" for number in range(200))
TABLE_OF: dict[str, Callable[[int], str]] = {  # entries that only Python parses, by what there is much of
    "targets": lambda number: f"mse|{number}|-1|ä{number}:1",
    "groups": lambda number: f"mse|{number}|-1|" + ";".join(f"ä:{1 + (number >> at & 1)}" for at in range(10)),
    "senders": lambda number: f"mse|{number},ä:1|-1|ä:1",
    "names": lambda number: f"mse|1000,ä:{number}|-1|ä:1",
}


def begun_table(entry: Callable[[int], str], entries: int) -> str:
    return "\n".join(["newrt|start|t", *map(entry, range(1000, 1000 + entries)), ""])


BEGUN = {"map": NAMES, **{name: begun_table(entry, 200) for name, entry in TABLE_OF.items()}}


@pytest.mark.parametrize("begun", BEGUN.values(), ids=BEGUN)
def test_a_table_counts_for_what_its_text_becomes(monkeypatch: pytest.MonkeyPatch, begun: str) -> None:
    """A managed entity, group or name of some octets takes many times as many of the core's memory."""
    monkeypatch.setattr("core.rmr.managers.stream.LONGEST_TABLE", 200 * KEPT)
    bed = Bed()
    assert len(begun) < 100 * KEPT
    bed.send(begun)
    assert bed.told == [("", f"the table takes more than {200 * KEPT} octets")]
    assert bed.held.octets == 0


@pytest.mark.parametrize("entry", TABLE_OF.values(), ids=TABLE_OF)
def test_what_a_table_counts_for_is_what_it_takes(entry: Callable[[int], str]) -> None:
    """Twice that at most, besides what the parser takes for any table."""
    bed, begun = Bed(), begun_table(entry, 4000)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    bed.send(begun)
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert bed.held.octets > len(begun)
    assert taken < 2 * bed.held.octets


def test_the_heap_gives_back_what_a_long_table_took(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, when it has gone; nobody looks at the heap for a short one."""
    monkeypatch.setattr("core.rmr.managers.stream.MUCH", len(NAMES))
    bed = Bed()
    bed.send(NAMES)
    bed.send("".join(NAMES.splitlines(keepends=True)[1:]))
    assert bed.freed == 0
    bed.stream.lost()
    assert (bed.freed, bed.held.octets) == (1, 0)
    assert Bed(held=bed.held).send(GOOD) == ["OK t1 \n\0"]
    assert bed.freed == 1
