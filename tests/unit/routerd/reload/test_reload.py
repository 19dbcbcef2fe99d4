"""Reading the file again: real sockets on free ports, no processes."""

import errno
import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from routerd.config import Config, Listener, load
from routerd.log.log import configure
from routerd.machine import listeners
from routerd.machine.listeners import ListenError, Listening, close_all, listen_all
from routerd.reload.changes import changed
from routerd.reload.reload import MOST_SOCKETS, RefusedError, exchange, prepare, reload, retire, tell, tell_refused
from routerd.translate import remote_hosts
from routerd.translate.identities import Identities
from shm.contract.control import ChangeRequest


def listener(port: int, host: str = "127.0.0.1", **more: object) -> Listener:
    return Listener(host=host, port=str(port), **more)  # type: ignore[arg-type]  # as the test says


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


@pytest.fixture
def other_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


@pytest.fixture
def listening(port: int) -> Iterator[list[Listening]]:
    listening = listen_all([listener(port)])
    yield listening
    close_all(listening)


def connects(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except ConnectionRefusedError:
        return False
    return True


def test_a_configuration_that_has_become_a_pipe_is_refused(tmp_path: Path) -> None:
    """A reload would never end."""
    file = tmp_path / "router.conf"
    file.write_text("listener {\n port: 0\n}\n")
    config = load(file)
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(RefusedError, match="it is no regular file"):
        reload(config, [])


def test_what_stays_keeps_its_sockets(listening: list[Listening], port: int, other_port: int) -> None:
    """With its number, by which workers know it, and with new attributes."""
    kept, leaving = exchange(listening, [listener(other_port), listener(port, cost=7)])
    try:
        assert leaving == []
        assert kept[1].sockets == listening[0].sockets
        assert kept[1].number == listening[0].number
        assert kept[1].listener.cost == 7
        assert kept[0].number != kept[1].number
        assert connects(other_port)
    finally:
        close_all(kept[:1])


def test_what_goes_is_closed_everywhere(listening: list[Listening], port: int) -> None:
    """Also in processes that have the socket, too: here, a duplicate."""
    with listening[0].sockets[0].dup():
        kept, leaving = exchange(listening, [])
        assert kept == []
        assert connects(port)
        retire(leaving)
        assert not connects(port)


def test_all_interfaces_instead_of_one(listening: list[Listening], port: int) -> None:
    """The same port of another host is free in time, although somebody still has the old socket."""
    with listening[0].sockets[0].dup():
        kept, leaving = exchange(listening, [listener(port, host="0.0.0.0")])
        retire(leaving)
        assert connects(port)
        close_all(kept)


def test_who_makes_way_listens_while_names_are_looked_up(
    listening: list[Listening], port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A silent resolver would refuse clients for as long as it is waited for."""
    listens: list[bool] = []
    there = listeners.wait_for
    monkeypatch.setattr(listeners, "wait_for", lambda all_: (listens.append(connects(port)), there(all_)))
    kept, leaving = exchange(listening, [listener(port, host="localhost", socket_address_family="IPv4")])
    retire(leaving)
    close_all(kept)
    assert listens == [True]


def test_a_port_in_use_leaves_all_as_it_was(listening: list[Listening], port: int) -> None:
    """What had to make way listens again."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        wanted = [listener(port, host="0.0.0.0"), listener(taken.getsockname()[1])]
        with pytest.raises(Exception, match="the port is in use"):
            exchange(listening, wanted)
    assert connects(port)


def test_more_sockets_than_a_worker_has_places_for(listening: list[Listening]) -> None:
    """Refused before any is opened for good."""
    with pytest.raises(Exception, match="more than 64 sockets"):
        exchange(listening, [listener(0, name=str(i)) for i in range(MOST_SOCKETS)])


def _none_left(*_: object) -> None:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


@pytest.mark.parametrize("kept", [False, True])
def test_descriptors_that_run_out_leave_all_as_it_was(
    listening: list[Listening], port: int, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The socket pair of WebSockets, of a new listener or of one that stays, is the last that an exchange opens."""
    plain = listen_all([listener(0, name="page", http=True, websockets=False)])
    before = len(os.listdir("/proc/self/fd"))
    page = listener(0, name="page" if kept else "new", http=True)
    monkeypatch.setattr(socket, "socketpair", _none_left)
    with pytest.raises(ListenError, match=r"Too many open files; raise the limit \(LimitNOFILE=, ulimit -n\)"):
        exchange([*listening, *plain], [listener(port, host="0.0.0.0"), page])
    assert len(os.listdir("/proc/self/fd")) == before
    assert connects(port)
    close_all(plain)


def test_a_socket_pair_that_nobody_needs_any_more_is_closed_with_what_goes() -> None:
    """Until then the processes that have it go on with it."""
    page = listen_all([listener(0, name="page", http=True)])
    kept, leaving = exchange(page, [listener(0, name="page", http=True, websockets=False)])
    assert page[0].handover is not None
    assert kept[0].handover is None
    assert [end.fileno() >= 0 for end in page[0].handover] == [True, True]
    retire(leaving, kept)
    assert [end.fileno() >= 0 for end in page[0].handover] == [False, False]
    assert kept[0].sockets[0].fileno() >= 0
    close_all(kept)


class Running:
    """A configuration as it runs, and its file."""

    def __init__(self, folder: Path, port: int) -> None:
        self.file = folder / "router.conf"
        self.port = port
        self.write()
        self.config: Config = load(self.file, "r")

    def write(self, text: str = "", port: int | None = None) -> None:
        self.file.write_text(f"listener {{\n host: 127.0.0.1\n port: {port or self.port}\n}}\n{text}")


@pytest.fixture
def running(tmp_path: Path, port: int) -> Running:
    configure([], "test")  # before the test begins: of a logger that is set up later, caplog hears nothing
    return Running(tmp_path, port)


def test_every_mistake_of_a_bad_file_is_named(running: Running, listening: list[Listening]) -> None:
    """With its line; the sum is logged, too."""
    running.write("address {\n prefix: a\n distribution: all\n}\nnonsense {\n}\n")
    with pytest.raises(RefusedError) as refused:
        reload(running.config, listening)
    assert [reason.partition(": ")[0] for reason in refused.value.reasons] == [f"{running.file}:7", f"{running.file}:9"]


def test_refusal_is_logged_line_by_line(caplog: pytest.LogCaptureFixture) -> None:
    tell_refused(RefusedError(["a: one", "b: two"]))
    assert [record.getMessage() for record in caplog.records] == [
        "Reload: a: one",
        "Reload: b: two",
        "Reload refused: the router keeps its configuration",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n# to be continued\n",
        "router {\n id: r\n}\n",
        "listener {\n port: 0\n http: yes\n}\n",
        "router {\n id: r\n mode: interior\n}\nlistener {\n port: 0\n role: inter-router\n}\n",
    ],
    ids=["empty", "a comment", "cut off before its listener", "only HTTP is left", "only routers are left"],
)
def test_a_file_without_listeners_is_no_order_to_stop_listening(
    running: Running, listening: list[Listening], text: str
) -> None:
    """Somebody's editor has emptied it, or is not done; clients go on connecting."""
    running.file.write_text(text)
    with pytest.raises(RefusedError, match=rf"{running.file}:1: the file no longer has a listener .*allowNoListener"):
        reload(running.config, listening)
    assert connects(running.port)


def test_a_file_cut_off_anywhere_is_refused(running: Running, listening: list[Listening]) -> None:
    """Byte by byte, up to the brace that closes its listener."""
    whole = running.file.read_text().rstrip()
    for length in range(len(whole)):
        running.file.write_text(whole[:length])
        with pytest.raises(RefusedError):
            reload(running.config, listening)


def test_listeners_are_given_up_by_a_plain_word(running: Running, listening: list[Listening]) -> None:
    """A router may live on its connectors alone."""
    running.file.write_text("router {\n id: r\n allowNoListener: yes\n}\n")
    reloaded = reload(running.config, listening)
    assert reloaded.listening == []
    assert reloaded.retired == listening
    assert not reloaded.difference.restart


_open = os.open


def _read_only(file: str, flags: int, mode: int = 0o777) -> int:
    if flags & os.O_ACCMODE == os.O_RDONLY:
        return _open(file, flags, mode)
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))


def test_a_log_that_cannot_be_written_refuses_all(
    running: Running, listening: list[Listening], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a socket is opened."""
    name = running.file.parent / "log"
    running.write(f"log {{\n module: DEFAULT\n outputFile: {name}\n}}\n", port=0)
    monkeypatch.setattr(os, "open", _read_only)
    with pytest.raises(RefusedError, match=f"{name}.* cannot be written"):
        reload(running.config, listening)


def test_a_listener_that_cannot_listen_is_named_with_its_line(running: Running, listening: list[Listening]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        running.write(port=taken.getsockname()[1])
        with pytest.raises(RefusedError, match=rf"{running.file}:1: listener: .*the port is in use"):
            reload(running.config, listening)
    assert connects(running.port)


def test_a_reload_that_is_refused_forgets_no_names(
    running: Running, listening: list[Listening], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next request of management would wait for all of them."""
    forgotten: list[None] = []
    monkeypatch.setattr(remote_hosts, "forget", lambda: forgotten.append(None))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        running.write(port=taken.getsockname()[1])
        with pytest.raises(RefusedError, match="the port is in use"):
            reload(running.config, listening)
    assert not forgotten
    running.write()
    reload(running.config, listening)
    assert forgotten


def test_a_failure_that_nobody_foresaw_leaves_the_log_as_it_was(
    running: Running, listening: list[Listening], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("planted")

    file = running.file.parent / "log"
    running.write(f"log {{\n module: DEFAULT\n outputFile: {file}\n}}\n")
    monkeypatch.setattr("routerd.reload.reload.exchange", broken)
    with pytest.raises(RuntimeError, match="planted"):
        reload(running.config, listening)
    logging.getLogger("SERVER").error("where?")
    assert file.read_text() == ""


def test_a_router_without_a_file_has_none_to_read(running: Running) -> None:
    import msgspec  # noqa: PLC0415  here alone

    with pytest.raises(RefusedError, match="without a configuration file"):
        reload(msgspec.structs.replace(running.config, file=""), [])


def test_each_change_is_one_line(
    running: Running, listening: list[Listening], caplog: pytest.LogCaptureFixture
) -> None:
    """And what only a restart changes is a warning."""
    running.write("address {\n prefix: a\n}\nrouter {\n workers: 5\n arenaSize: 8\n}\n")
    caplog.set_level(logging.DEBUG)
    tell(reload(running.config, listening), ())
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("NOTICE", "Reload: address prefix a added"),
        ("NOTICE", "Reload: router changed: workers from 2 to 5"),
        ("WARNING", "Reload: router changed: arenaSize from 96 to 8; it needs a restart of the router to take effect"),
    ]


def test_what_waits_for_a_restart_is_said_by_reloads_alone(
    running: Running, listening: list[Listening], caplog: pytest.LogCaptureFixture
) -> None:
    """Each request of management had it again, although none can change what only a restart does."""
    running.write("router {\n arenaSize: 8\n}\n")
    config = reload(running.config, listening).difference.effective
    caplog.set_level(logging.DEBUG)
    request = ChangeRequest(1, "CREATE", "router.config.address", "", {"prefix": "a"})
    new = changed(config, request, Identities())
    tell(prepare(config, new.config, listening), config.warnings, "Management: ")
    assert [record.getMessage() for record in caplog.records] == ["Management: address prefix a added"]
    caplog.clear()
    tell(reload(config, listening), config.warnings)
    assert "Reload: router changed: arenaSize from 96 to 8; it needs a restart" in caplog.text


def test_nothing_changed_is_said(
    running: Running, listening: list[Listening], caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever asked for it wants to know."""
    caplog.set_level(logging.DEBUG)
    tell(reload(running.config, listening), ())
    assert [record.getMessage() for record in caplog.records] == ["Reload: nothing has changed"]


def test_a_reload_looks_names_up_again(
    running: Running, listening: list[Listening], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that has moved gets in from its new address alone; one that the resolver did not know gets in at last."""
    known = {"gate.example": "192.0.2.7"}

    def look_up(name: str, *more: object, **others: object) -> list[Any]:
        if name.endswith(".example") and name not in known:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(0, 0, 0, "", (known[name], 0))] if name in known else there(name, *more, **others)

    def found() -> list[str]:
        hosts = remote_hosts.look_up(["gate.example", "late.example"])
        return [one.ranges[0][0] if one.ranges else "" for one in hosts.values()]

    there = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    remote_hosts.forget()
    try:
        assert found() == ["192.0.2.7", ""]
        known |= {"gate.example": "192.0.2.8", "late.example": "192.0.2.9"}
        assert found() == ["192.0.2.7", ""]
        reload(running.config, listening)
        assert found() == ["192.0.2.8", "192.0.2.9"]
    finally:
        remote_hosts.forget()
