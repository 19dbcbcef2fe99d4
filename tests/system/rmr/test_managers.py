"""Route Managers and applications over real connections: the router asks one, and is the other's."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.rmr.managers.messages import REQUEST, STATE, TABLE
from core.rmr.tables import decoding
from routerd.cli.client import Client, Place
from tests.support.clients.rmr import Application, Link
from tests.support.clients.rmr_frames import CALL, Frame
from tests.support.running import Configuration, RunningRouter, address_of, free_port, roles, until

GOOD = b"newrt|start|%s\nmse|1000|-1|127.0.0.1:9\nnewrt|end|1\n"


def is_request(frame: Frame) -> bool:
    return frame.message_type == REQUEST


@pytest.fixture(scope="module")
def manager() -> Iterator[Application]:
    """The manager of the table `asks`; it is there before the router."""
    with Application() as application:
        yield application


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("known") / "applications"


@pytest.fixture(scope="module")
def configuration(manager: Application, known: Path, tmp_path_factory: pytest.TempPathFactory) -> Configuration:
    seed = tmp_path_factory.mktemp("seed") / "seed"
    port = free_port()  # requests say it: a port of the system's choice is not known there
    seed.write_text("newrt|start|first\nmse|1000|-1|127.0.0.1:9\nnewrt|end|1\n")
    return Configuration(
        router="workers: 2",
        sections=f"""
routeTable {{
 name: asks
 manager: {manager.name}
 requestInterval: 1
 connect: no
}}
routeTable {{
 name: serves
 seed: {seed}
 serve: yes
 servedAs: router.example.org:4560
 applications: {known}
 connect: no
}}
listener {{
 host: 127.0.0.1
 port: {port}
 protocol: rmr
 table: asks
}}
listener {{
 host: 127.0.0.1
 port: 0
 protocol: rmr
 table: serves
}}
""",
        expected="Route table|endpoint .*: |core died",
    )


@pytest.fixture(scope="module", autouse=True)
def ended(router: RunningRouter, manager: Application) -> Iterator[None]:
    """The manager is gone before the router: that comes to rest then."""
    yield
    manager.close()


def rows(router: RunningRouter, kind: str) -> list[dict[str, object]]:
    with Client(Place(router.url)) as client:
        return [dict(row) for row in client.query(kind)]


def answer(manager: Application, link: Link, payload: bytes) -> Frame:
    """Send something to the router; its acknowledgement on the same connection."""
    manager.send_on(link, TABLE, payload, transaction=b"t" * 32)
    return state(link)


def state(link: Link) -> Frame:
    """The next acknowledgement."""
    while True:
        (told,) = link.receive()
        if told.message_type == STATE:
            return told


def next_life(manager: Application) -> Link:
    """The manager dies, and is asked again when it is back."""
    for link in manager.links:
        link.close()
    manager.links.clear()
    return manager.take(is_request)[0]


def in_use(router: RunningRouter) -> tuple[object, object]:
    """Id and number of entries of the table that has a manager."""
    (row,) = [row for row in rows(router, "routeTable") if row["name"] == "asks"]
    return row["tableId"], row["entryCount"]


def test_the_router_asks_until_a_table_is_accepted(router: RunningRouter, manager: Application) -> None:
    """Every second, also after bad tables, comments and maps; then no more."""
    link, asked = manager.take(is_request)
    assert asked.payload.endswith(b"\n\0")
    assert asked.payload.split()[0].decode() == asked.source
    manager.send_on(link, TABLE, b"# a comment ends the library's requests\n")
    told = answer(manager, link, b"newrt|start|bad\nmse|1|-1|a:1\nnewrt|end|7\n")
    assert told.payload == b"ERR bad missing table records: expected 7 got 1\n\n\0"
    assert (told.transaction, told.subscription) == (b"t" * 32, -1)
    assert manager.take(is_request)[0] is link
    told = answer(manager, link, GOOD % b"good")
    assert told.payload == b"OK good \n\0"
    (row,) = rows(router, "routeTable.manager")
    assert (row["table"], row["state"], row["tableId"]) == ("asks", "accepted", "good")
    assert answer(manager, link, b"updatert|start|u\ndel|1000|-1\nupdatert|end|1\n").payload == b"OK u \n\0"


def test_a_table_of_megabytes_in_one_frame(router: RunningRouter, manager: Application) -> None:
    """As real managers send them."""
    link = next(one for one in manager.links)
    lines = b"".join(b"mse|%d|-1|host%d.example.org:4560\n" % (one, one % 50) for one in range(60_000))
    told = answer(manager, link, b"newrt|start|big\n" + lines + b"newrt|end|60000\n")
    assert told.payload == b"OK big \n\0"
    (row,) = [row for row in rows(router, "routeTable") if row["name"] == "asks"]
    assert row["entryCount"] == 60_000


def test_a_manager_that_comes_back_is_asked_again(router: RunningRouter, manager: Application) -> None:
    """And may answer on a connection of its own, to where the request says that the router is."""
    for link in manager.links:
        link.close()
    manager.links.clear()
    _, asked = manager.take(is_request)
    own = Link.to(asked.source)
    manager.links.append(own)
    assert answer(manager, own, GOOD % b"back").payload == b"OK back \n\0"
    until(lambda: rows(router, "routeTable.manager")[0]["tableId"] == "back", "the manager's table")


def test_a_manager_that_dies_within_a_table(router: RunningRouter, manager: Application) -> None:
    """What it had sent is forgotten; the next life is asked, and begins anew."""
    link = next_life(manager)
    assert answer(manager, link, GOOD % b"whole").payload == b"OK whole \n\0"
    manager.send_on(link, TABLE, b"newrt|start|half\nmse|1|-1|a:1\n")
    link = next_life(manager)
    assert in_use(router) == ("whole", 1)
    told = answer(manager, link, b"mse|2|-1|a:1\nnewrt|end|2\n")  # the other half
    assert told.payload.startswith(b"ERR <id-missing> line 1: an entry outside of any table")
    assert answer(manager, link, GOOD % b"anew").payload == b"OK anew \n\0"
    assert in_use(router) == ("anew", 1)


def test_a_manager_that_cuts_tables_short_repeats_and_sends_two_at_once(
    router: RunningRouter, manager: Application
) -> None:
    """Each is answered for itself, in order; what is whole is used, as often as it comes."""
    link = next_life(manager)
    two = GOOD % b"one" + GOOD % b"two"
    manager.send_on(link, TABLE, b"newrt|start|short\nmse|1|-1|a:1\n" + two + two, transaction=b"t" * 32)
    told = [state(link) for _ in range(5)]
    assert [one.payload for one in told] == [b"ERR short table not complete\n\0", *[b"OK one \n\0", b"OK two \n\0"] * 2]
    assert {one.transaction for one in told} == {b"t" * 32}
    for _ in range(3):
        assert answer(manager, link, GOOD % b"two").payload == b"OK two \n\0"
    assert in_use(router) == ("two", 1)
    told = answer(manager, link, b"newrt|start|x\nmse|1|-1|a:1\nmse|2\nnewrt|end|2\n").payload
    assert told == b"ERR x missing table records: expected 2 got 1\n\n\0"
    assert in_use(router) == ("two", 1)


def test_two_managers_at_once(router: RunningRouter, manager: Application) -> None:
    """Their records do not mix: who ends last has the table. One at another address has no say."""
    link = next_life(manager)
    listener = address_of(router.urls[1])
    other = manager.connect(listener)
    manager.links.append(other)
    foreign = Link(socket.create_connection(listener, source_address=("127.0.0.2", 0)))
    manager.links.append(foreign)
    manager.send_on(link, TABLE, b"newrt|start|first\nmse|1000|-1|a:1\n")
    manager.send_on(other, TABLE, b"newrt|start|second\nmse|1000|-1|b:1\nmse|1001|-1|b:1\n")
    assert answer(manager, foreign, GOOD % b"third").payload.startswith(b"ERR third this sender may not send")
    assert answer(manager, other, b"newrt|end|2\n").payload == b"OK second \n\0"
    assert in_use(router) == ("second", 2)
    assert answer(manager, link, b"newrt|end|1\n").payload == b"OK first \n\0"
    assert in_use(router) == ("first", 1)


def test_a_table_and_a_map_in_one_blocking_call(router: RunningRouter, manager: Application) -> None:
    """As the Go Route Manager sends them: no ids, no count, and it waits for the answer (facts 10)."""
    link = next_life(manager)
    text = b"newrt|start\nmse|1000|-1|%meid\nnewrt|end\nmeid_map|start\nmme_ar|a:1|gnb1 gnb2\nmeid_map|end|1\n"
    manager.send_on(link, TABLE, text, transaction=b"c" * 32, d1=b"\x07\0\0\0", flags=CALL)
    first, second = state(link), state(link)
    assert first.payload == second.payload == b"OK <id-missing> \n\0"
    assert (first.call, first.flags & CALL, first.transaction) == (7, 0, b"c" * 32)
    assert second.call == 0, "it would be taken for the answer to the next call"
    assert in_use(router)[1] == 1


class Asking:
    """An application of the router's: a control port, and a connection for requests."""

    def __init__(self, router: RunningRouter, listening: Application) -> None:
        self.listening = listening
        self.name = f"app:{listening.name.partition(':')[2]}"
        self.link = Link.to("{}:{}".format(*address_of(router.urls[2])))

    def ask(self) -> None:
        payload = f"{self.name} ts=1\n\0".encode()
        self.link.send(Frame(REQUEST, payload, subscription=0, source=self.listening.name))

    def table(self) -> tuple[str, list[bytes]]:
        """The next table or map, acknowledged: its id and what stands between its ends."""
        (frame,) = self.link.receive()
        return self.acknowledge(self.link, frame)

    def acknowledge(self, link: Link, frame: Frame, state: str = "OK", reason: str = "") -> tuple[str, list[bytes]]:
        lines = frame.payload.splitlines()
        assert frame.message_type == TABLE
        table_id = lines[0].split(b"|")[2].decode()
        payload = f"{state} {table_id} {reason}\n\0".encode()
        link.send(Frame(STATE, payload, source=self.listening.name, transaction=frame.transaction))
        return table_id, lines[1:-1]


@pytest.fixture(scope="module")
def asking(router: RunningRouter) -> Iterator[Asking]:
    with Application() as listening:
        application = Asking(router, listening)
        yield application
        application.link.close()


def push(router: RunningRouter, text: str, folder: Path) -> None:
    file = folder / "table"
    file.write_text(text)
    subprocess.run(
        [Path(sys.executable).with_name("routerd"), "table", "push", "--table", "serves", "--bus", router.url, file],
        check=True,
        capture_output=True,
        env=os.environ,
    )


def test_applications_get_tables_and_changes_and_are_known(
    router: RunningRouter, asking: Asking, tmp_path: Path
) -> None:
    """The seed, then what is pushed, as a change; an error is none, and everything follows."""
    asking.ask()
    table_id, entries = asking.table()
    assert table_id.startswith("first@")
    assert entries == [b"mse|1000|-1|127.0.0.1:9"]
    until(lambda: router.core["table_applications_ok"] == 1, "the acknowledgement")
    push(router, "updatert|start|u\nmse|1001|-1|127.0.0.1:9\nupdatert|end|1\n", tmp_path)
    (frame,) = asking.link.receive()
    assert frame.source == "router.example.org:4560"
    assert frame.payload.startswith(b"updatert|start|")
    refused = router.core["table_nacks"]
    asking.acknowledge(asking.link, frame, "ERR", "no room")
    until(lambda: router.core["table_nacks"] == refused + 1, "the error")
    (row,) = rows(router, "routeTable.application")
    assert (row["endpoint"], row["table"]) == (asking.name, "serves")
    assert (row["state"], row["reason"]) in (("err", "no room"), ("pending", "")), "everything is sent again"
    _, entries = asking.table()
    assert len(entries) == 2
    until(lambda: rows(router, "routeTable.application")[0]["state"] == "ok", "the whole table")


def test_who_runs_which_table_at_the_command_line(router: RunningRouter, asking: Asking) -> None:
    """`routerd table who`."""
    command = [Path(sys.executable).with_name("routerd"), "table", "who", "--bus", router.url]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "asks: Route Manager 127.0.0.1:" in text
    assert asking.name in text
    assert " ok " in text


def test_an_application_is_found_again_when_the_core_has_died(
    router: RunningRouter, asking: Asking, known: Path
) -> None:
    """It asks only once; the next core connects to its control port and sends everything."""
    until(lambda: known.exists() and asking.name in known.read_text(), "the file")
    roles(router.process.pid)["core"].kill()
    link, frame = asking.listening.take(lambda frame: frame.message_type == TABLE)
    table_id, _ = asking.acknowledge(link, frame)
    assert table_id.startswith("u@")  # what was pushed last: the next core goes on with it
    until(lambda: rows(router, "routeTable.application")[0]["state"] == "ok", "the table")


@pytest.fixture
def listening() -> Iterator[Application]:
    with Application() as application:
        yield application


def test_no_octets_and_no_digits_of_a_peer_end_the_core(
    router: RunningRouter, manager: Application, listening: Application, tmp_path: Path
) -> None:
    """A manager, a stranger and a file say what is no text and no number: each hears why, and all goes on."""
    core = roles(router.process.pid)["core"].pid
    link = next_life(manager)
    for record, reason in (
        (b"newrt|start|K\xf6ln\nmse|1|-1|a:1\nnewrt|end|1\n", b"ERR K\xf6ln line 1: "),
        (b"newrt|start|d\nmse|" + b"9" * 5000 + b"|-1|a:1\nnewrt|end|1\n", b"ERR d line 2: "),
        (b"newrt|start|e\nmse|1|" + b"9" * 5000 + b"|a:1\nnewrt|end|1\n", b"ERR e line 2: "),
        (b"newrt|start|f\nmse|1|-1|a:1\nnewrt|end|" + b"9" * 5000 + b"\n", b"ERR f "),
        (b"meid_map|start|m\nmme_ar|a:1|\xff\xfe\nmme_del|\xed\xa0\x80\nmeid_map|end|2\n", b"OK m "),
        (GOOD % b"good again", b"OK good again "),
    ):
        assert answer(manager, link, record).payload.startswith(reason)
    asking = Asking(router, listening)
    asking.ask()
    asking.table()
    for name in ("\udcff:4560", "\udced\udca0\udc80:4560"):
        asking.link.send(Frame(REQUEST, decoding.octets_of(name) + b" ts=1\n\0", source="stranger:1"))
        asking.link.send(Frame(REQUEST, b"stranger:2 ts=1\n\0", source=name))
    file = tmp_path / "latin"
    file.write_bytes(b"newrt|start|K\xf6ln\nmse|1|-1|a:1\nnewrt|end|1\n")
    pushed = command(router, "push", "--table", "serves", "--bus", router.url, str(file))
    assert pushed.returncode == 1
    assert "is not UTF-8 (octet 0xf6)" in pushed.stderr
    assert "Traceback" not in pushed.stderr
    (file.with_name("meids")).write_bytes(b"meid_map|start|n\nmme_ar|a:1|\xff\nmeid_map|end|1\n")
    pushed = command(router, "push", "--table", "serves", "--bus", router.url, str(file.with_name("meids")))
    assert pushed.stdout == "serves: map n in use (1 entry)\n", pushed.stderr
    asked = command(router, "ask", "--table", "serves", "--mt", "1000", "--meid", "\udcff", "--bus", router.url)
    assert asked.returncode == 0, asked.stderr
    (frame,) = asking.link.receive()
    assert b"mme_ar|a:1|\xff\n" in frame.payload
    assert not {"stranger:1", "stranger:2"} & {row["endpoint"] for row in rows(router, "routeTable.application")}
    assert roles(router.process.pid)["core"].pid == core
    assert "control message from 127.0.0.1" in router.log


def command(router: RunningRouter, *words: str) -> "subprocess.CompletedProcess[str]":
    """`routerd table`, with what it says."""
    arguments = [Path(sys.executable).with_name("routerd"), "table", *words]
    return subprocess.run(arguments, check=False, capture_output=True, text=True)
