"""Listening sockets: where they listen, and what is said when they cannot."""

import socket
import threading
from typing import Any

import pytest

from routerd.config import Listener
from routerd.machine import lookups
from routerd.machine.listeners import ListenError, Listening, close_all, listen_all


def addresses(listening: list[Listening]) -> set[str]:
    return {sock.getsockname()[0] for one in listening for sock in one.sockets}


def test_no_host_is_all_interfaces_of_both_families_on_one_port() -> None:
    """Any free port is the same one for IPv4 and IPv6."""
    listening = listen_all([Listener(port="0")])
    try:
        assert addresses(listening) - {"::"} == {"0.0.0.0"}
        assert len({sock.getsockname()[1] for sock in listening[0].sockets}) == 1
    finally:
        close_all(listening)


def test_the_family_restricts_the_addresses() -> None:
    """socketAddressFamily chooses among what a host name means."""
    listening = listen_all([Listener(host="localhost", port="0", socket_address_family="IPv4")])
    try:
        assert addresses(listening) == {"127.0.0.1"}
        assert listening[0].urls[0].startswith("amqp://127.0.0.1:")
    finally:
        close_all(listening)


def test_sockets_do_not_block_and_are_not_inherited_by_accident() -> None:
    """Workers share them: accept must not wait, and only children that are given them have them."""
    listening = listen_all([Listener(host="127.0.0.1", port="0")])
    try:
        sock = listening[0].sockets[0]
        assert not sock.getblocking()
        assert not sock.get_inheritable()
    finally:
        close_all(listening)


def test_one_failure_closes_all() -> None:
    """What had been opened before is closed."""
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
        free.close()
        good = Listener(host="127.0.0.1", port=str(port))
        bad = Listener(host="127.0.0.1", port=str(taken.getsockname()[1]))
        with pytest.raises(ListenError):
            listen_all([good, bad])
        close_all(listen_all([good]))


@pytest.mark.parametrize(
    ("listener", "words"),
    [
        (Listener(host="192.0.2.1", port="0"), "no such address on this machine"),
        (Listener(host="no-such-host.invalid", port="0"), "'no-such-host.invalid' of .* is not known"),
        (Listener(host="127.0.0.1", port="0", socket_address_family="IPv6"), "not known as IPv6"),
        (Listener(host="a..b", port="0"), "'a..b' of .* is not known .*empty label"),
        (Listener(host="a" * 64 + ".example", port="0"), "is not known .*64 octets"),
    ],
)
def test_errors_name_the_place_and_the_way_out(listener: Listener, words: str) -> None:
    """What happened, why, and what to give instead."""
    with pytest.raises(ListenError, match=f"(?s){words}.*give"):
        listen_all([listener])


def test_a_resolver_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reload with a new listener would make the supervisor stand still until the watchdog ends the router."""
    over, there = threading.Event(), socket.getaddrinfo

    def answer(name: str, *more: Any, flags: int = 0) -> Any:
        if name.endswith(".example") and not flags:
            over.wait()
        return there(name, *more, flags=flags)

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    monkeypatch.setattr(lookups, "LOOKUP_SECONDS", 0.0)
    silent = [Listener(host=f"{number}.example", port="0") for number in range(3)]
    close_all(listen_all([Listener(host="127.0.0.1", port="0")]))
    with pytest.raises(ListenError, match=r"host '0\.example' of .* is not known \(the resolver has not answered"):
        listen_all(silent)
    over.set()


def test_an_error_knows_the_line_of_its_listener() -> None:
    """Whoever shows it names FILE:LINE."""
    with pytest.raises(ListenError) as error:
        listen_all([Listener(name="clients", host="192.0.2.1", port="0", line=7)])
    assert error.value.line == 7
    assert str(error.value).startswith("listener clients: cannot listen on 192.0.2.1:0: ")
