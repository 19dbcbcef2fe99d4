"""What the service manager hears and hands over, with the test as service manager."""

import os
import re
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from routerd.config import Listener
from routerd.machine.listeners import ListenError, close_all, listen_all
from routerd.machine.systemd import Manager, Passed, passed_sockets
from routerd.reload.reload import exchange, retire

Ear = tuple[str, socket.socket]


@pytest.fixture
def ear(tmp_path: Path) -> Iterator[Ear]:
    """An address to notify, and the socket that hears it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(tmp_path / "notify"))
        sock.setblocking(False)
        yield str(tmp_path / "notify"), sock


def heard(ear: Ear) -> list[list[str]]:
    messages = []
    while True:
        try:
            messages.append(ear[1].recv(4096).decode().split("\n"))
        except BlockingIOError:
            return messages


def test_the_manager_hears_every_change_once(ear: Ear) -> None:
    """Ready, a new status, reload with its time, stop."""
    manager = Manager({"NOTIFY_SOCKET": ear[0]}, 1)
    manager.ready("all serve")
    manager.status("all serve")
    manager.status("one restarts")
    manager.reloading()
    manager.stopping()
    manager.stopping()
    ready, status, reloading, stopping = heard(ear)
    assert ready == ["READY=1", f"MAINPID={os.getpid()}", "STATUS=all serve"]
    assert status == ["STATUS=one restarts"]
    assert reloading[0] == "RELOADING=1"
    assert re.fullmatch(r"MONOTONIC_USEC=\d+", reloading[1])
    assert stopping[0] == "STOPPING=1"


def test_an_abstract_address_begins_with_an_at(tmp_path: Path) -> None:
    """As containers have it."""
    name = f"routerd-test-{tmp_path.name}-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(f"\0{name}")
        Manager({"NOTIFY_SOCKET": f"@{name}"}, 1).status("here")
        assert sock.recv(100) == b"STATUS=here"


def test_text_cannot_forge_a_line(ear: Ear) -> None:
    """A name with a line break stays one status."""
    Manager({"NOTIFY_SOCKET": ear[0]}, 1).failed("no\nREADY=1")
    assert heard(ear) == [["STATUS=Cannot start: no READY=1"]]


def test_a_long_status_is_cut(ear: Ear) -> None:
    """systemd drops a message of more than 4096 octets, and would wait for READY=1 for ever."""
    Manager({"NOTIFY_SOCKET": ear[0]}, 1).ready("\N{SNOWMAN}" * 10_000)
    (lines,) = heard(ear)
    assert lines[0] == "READY=1"
    assert len("\n".join(lines).encode()) < 4096
    assert lines[-1].startswith("STATUS=\N{SNOWMAN}")


def test_without_a_manager_nothing_happens() -> None:
    """Also when its socket is gone."""
    for environment in ({}, {"NOTIFY_SOCKET": "/nowhere/at/all"}):
        manager = Manager(environment, 1)
        manager.ready("fine")
        manager.feed(0.0, lambda: True)


def test_the_watchdog_is_fed_while_all_is_well(ear: Ear) -> None:
    """At a quarter of its time, and not while somebody hangs."""
    manager = Manager({"NOTIFY_SOCKET": ear[0], "WATCHDOG_USEC": "8000000", "WATCHDOG_PID": "7"}, 7)
    manager.feed(0.0, lambda: True)
    manager.feed(1.9, lambda: True)
    assert heard(ear) == [["WATCHDOG=1"]]
    manager.feed(2.0, lambda: False)
    manager.feed(3.0, lambda: False)
    assert heard(ear) == []
    manager.feed(3.5, lambda: True)
    assert heard(ear) == [["WATCHDOG=1"]]


def test_another_process_s_watchdog_is_not_fed(ear: Ear) -> None:
    manager = Manager({"NOTIFY_SOCKET": ear[0], "WATCHDOG_USEC": "8000000", "WATCHDOG_PID": "7"}, 8)
    manager.feed(0.0, lambda: True)
    assert heard(ear) == []


def test_children_inherit_none_of_it() -> None:
    """Nobody but the supervisor speaks for the router."""
    environment = {
        "NOTIFY_SOCKET": "@x", "WATCHDOG_USEC": "1", "WATCHDOG_PID": "1",
        "LISTEN_PID": "1", "LISTEN_FDS": "0", "LISTEN_FDNAMES": "a", "HOME": "/",
    }  # fmt: skip
    Manager(environment, 1)
    passed_sockets(environment, 1)
    assert environment == {"HOME": "/"}


def test_sockets_for_another_process_are_left_alone() -> None:
    """LISTEN_PID says whose they are."""
    assert passed_sockets({"LISTEN_PID": "1", "LISTEN_FDS": "1"}, 2).unused() == []


def server(family: socket.AddressFamily, host: str, **options: bool) -> socket.socket:
    return socket.create_server((host, 0), family=family, **options)


def same(ones: Sequence[socket.socket], others: Sequence[socket.socket]) -> bool:
    """Whether they are the same sockets, or duplicates of them; the former are closed."""
    inodes = [[os.fstat(sock.fileno()).st_ino for sock in socks] for socks in (ones, others)]
    for sock in ones:
        sock.close()
    return inodes[0] == inodes[1]


def test_a_passed_socket_serves_its_listener() -> None:
    """By address; nothing is bound anew, and nothing is left."""
    with server(socket.AF_INET, "127.0.0.1") as sock:
        passed = Passed([("amqp", sock)])
        listening = listen_all([Listener(host="127.0.0.1", port=str(sock.getsockname()[1]))], passed)
        assert same(listening[0].sockets, [sock])
        assert listening[0].held == 1
        assert passed.unused() == []


def test_a_listener_on_any_port_takes_the_socket_of_its_name() -> None:
    """FileDescriptorName= in the socket unit."""
    with server(socket.AF_INET, "127.0.0.1") as sock, server(socket.AF_INET, "127.0.0.1") as other:
        passed, port = Passed([("other", other), ("clients", sock)]), other.getsockname()[1]
        listening = listen_all([Listener(name="clients", host="127.0.0.1", port="0")], passed)
        assert same(listening[0].sockets, [sock])
        assert passed.unused() == [f"127.0.0.1:{port} (other)"]


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_one_socket_for_both_families_is_enough() -> None:
    """ListenStream=5672 is one socket for IPv6 and IPv4; a listener for all interfaces is served by it."""
    with server(socket.AF_INET6, "::", dualstack_ipv6=True) as sock:
        listening = listen_all([Listener(port=str(sock.getsockname()[1]))], Passed([("amqp", sock)]))
        assert same(listening[0].sockets, [sock])


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_a_socket_for_both_families_serves_a_listener_for_ipv4() -> None:
    """Host 0.0.0.0 and ListenStream=5672 are what people write."""
    with server(socket.AF_INET6, "::", dualstack_ipv6=True) as sock:
        listener = Listener(host="0.0.0.0", port=str(sock.getsockname()[1]))
        assert same(listen_all([listener], Passed([("amqp", sock)]))[0].sockets, [sock])


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_a_reload_changes_the_host_where_the_passed_socket_allows_it(caplog: pytest.LogCaptureFixture) -> None:
    """From IPv4 to all interfaces and back, away and back again: the socket stays the service manager's. A
    host that cannot stand beside it is refused with who holds the port and what to do."""
    with server(socket.AF_INET6, "::", dualstack_ipv6=True) as sock:
        port = str(sock.getsockname()[1])
        passed = Passed([("amqp", sock)])
        listening = listen_all([Listener(host="0.0.0.0", port=port)], passed.beside(()))
        for host in ("", "0.0.0.0"):
            listening, leaving = exchange(listening, [Listener(host=host, port=port)], passed)
            retire(leaving, listening)
            assert listening[0].held == len(listening[0].sockets) == 1
            with socket.create_connection(("127.0.0.1", int(port)), timeout=10):
                listening[0].sockets[0].setblocking(True)
                listening[0].sockets[0].accept()[0].close()
        assert caplog.records == []
        with pytest.raises(ListenError) as refused:
            exchange(listening, [Listener(host="127.0.0.1", port=port)], passed)
        assert f"systemd holds the port for this service, on [::]:{port}, " in str(refused.value)
        assert "or change ListenStream= of the socket unit; then systemctl daemon" in str(refused.value)
        listening, leaving = exchange(listening, [], passed)
        retire(leaving, listening)
        assert "The service manager still listens for a removed listener" in caplog.text
        listening, _ = exchange(listening, [Listener(port=port)], passed)
        assert same(listening[0].sockets, [sock])


def test_what_is_missing_is_bound() -> None:
    """Passed sockets for some listeners, new ones for the others."""
    with server(socket.AF_INET, "127.0.0.1") as sock:
        taken = Listener(host="127.0.0.1", port=str(sock.getsockname()[1]))
        listening = listen_all([taken, Listener(host="127.0.0.1", port="0")], Passed([("amqp", sock)]))
        try:
            assert [one.held for one in listening] == [1, 0]
            assert len({one.number for one in listening}) == 2
        finally:
            close_all(listening)


def test_what_does_not_listen_is_not_taken() -> None:
    """A socket of another kind at the same address would never accept."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        passed = Passed([("amqp", sock)])
        assert passed.take("amqp", socket.AF_INET, sock.getsockname()) is None
        assert len(passed.unused()) == 1


def test_descriptors_are_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """From 3 on, with their names; children do not inherit them."""
    with server(socket.AF_INET, "127.0.0.1") as sock:
        monkeypatch.setattr("routerd.machine.systemd.FIRST_FD", os.dup(sock.fileno()))
        passed = passed_sockets({"LISTEN_PID": "1", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "amqp"}, 1)
        taken = passed.take("amqp", socket.AF_INET, ("127.0.0.1", 0))
        assert taken is not None
        assert taken.getsockname() == sock.getsockname()
        assert not taken.get_inheritable()
        taken.close()
