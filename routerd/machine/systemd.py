"""The service manager's interface: sd_notify(3) and sd_listen_fds(3).

Without a service manager every function does nothing. The variables are removed from the environment, so that
no child can report for the router.
"""

import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterable, MutableMapping, Sequence

from shm.contract.numbers import whole

FIRST_FD = 3  # SD_LISTEN_FDS_START
MOST_CHARACTERS = 900  # of a line: systemd drops messages of more than 4096 octets
MOST_PASSED = 64  # sockets of the service manager; a worker can serve no more

Environment = MutableMapping[str, str]


class Manager:
    """The service manager that started this process, if any."""

    def __init__(self, environment: Environment, pid: int) -> None:
        self._address = environment.pop("NOTIFY_SOCKET", "")
        interval, whose = environment.pop("WATCHDOG_USEC", ""), environment.pop("WATCHDOG_PID", str(pid))
        self.watchdog_seconds = (whole(interval) or 0) / 1e6 if whose == str(pid) else 0.0
        self._status = ""
        self._fed = float("-inf")
        self._stopping = False

    def ready(self, status: str) -> None:
        """Report that the router serves; this also ends `reloading`."""
        self._status = status
        self._say("READY=1", f"MAINPID={os.getpid()}", f"STATUS={status}")

    def status(self, text: str) -> None:
        """Report the line that `systemctl status` shows, if it has changed."""
        if text != self._status:
            self._status = text
            self._say(f"STATUS={text}")

    def reloading(self) -> None:
        """Report that the router reads its configuration again."""
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._say("RELOADING=1", f"MONOTONIC_USEC={now}", "STATUS=Reading the configuration again")

    def stopping(self) -> None:
        """Report once that the router is about to stop."""
        if not self._stopping:
            self._stopping = True
            self._say("STOPPING=1", "STATUS=Stopping")

    def failed(self, why: str) -> None:
        """Report why the router cannot start."""
        self._say(f"STATUS=Cannot start: {why}")

    def feed(self, now: float, well: Callable[[], bool]) -> None:
        """Feed the watchdog four times per interval while all is `well`, or as soon as it is again."""
        if self.watchdog_seconds and now - self._fed >= self.watchdog_seconds / 4 and well():
            self._fed = now
            self._say("WATCHDOG=1")

    def _say(self, *lines: str) -> None:
        if not self._address:
            return
        text = "\n".join(" ".join(line.splitlines())[:MOST_CHARACTERS] for line in lines)
        name = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        # A manager that does not listen must neither stop nor delay the router.
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.setblocking(False)
            sock.sendto(text.encode("utf-8", "replace"), name)


class Passed:
    """Listening sockets that the service manager holds for this process, each with the name it gave.

    They stay open: the manager listens as long as its socket unit is active, and a reload may add a listener
    for one of them.
    """

    def __init__(self, sockets: Sequence[tuple[str, socket.socket]] = ()) -> None:
        self._all = list(sockets)
        self._left = list(sockets)

    def beside(self, used: Iterable[socket.socket]) -> "Passed":
        """Return the same sockets, of which all but those in use can be taken."""
        known = {_inode(sock) for sock in used}
        other = Passed(self._all)
        other._left = [one for one in self._all if _inode(one[1]) not in known]
        return other

    def close(self) -> None:
        """Close all sockets; the service manager keeps listening."""
        for _, sock in self._all:
            sock.close()

    def take(self, name: str | None, family: socket.AddressFamily, address: tuple[str, int]) -> socket.socket | None:
        """Return a duplicate of the socket that listens on this address, or for port 0 of the socket with this name.

        A socket for both families also serves a request for IPv4 alone. None: there is no such socket.
        """
        fitting = [one for one in self._left if _fits(one, name, family, address)]
        fitting += [one for one in self._left if covers(one[1], family, address) and _listens(one[1])]
        if not fitting:
            return None
        self._left.remove(fitting[0])
        return fitting[0][1].dup()

    def unused(self) -> list[str]:
        """Return the addresses of the sockets that no listener took."""
        return [f"{_where(sock)} ({name})" for name, sock in self._left]

    def on_port(self, port: int) -> list[str]:
        """Return the addresses where the service manager listens on a port for this service."""
        return [_where(sock) for _, sock in self._all if _port(sock) == port]


def covers(taken: socket.socket, family: socket.AddressFamily, address: tuple[str, int]) -> bool:
    """Whether a socket for every IPv6 address also gets the connections to this IPv4 one."""
    return (
        family == socket.AF_INET
        and taken.family == socket.AF_INET6
        and not taken.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
        and taken.getsockname()[:2] == ("::", address[1])
        and address[0] == "0.0.0.0"  # noqa: S104  compared, not bound
    )


def passed_sockets(environment: Environment, pid: int) -> Passed:
    """Return the sockets that the service manager opened for this process."""
    whose, count = environment.pop("LISTEN_PID", ""), environment.pop("LISTEN_FDS", "")
    names = environment.pop("LISTEN_FDNAMES", "").split(":")
    number = whole(count)
    if whose != str(pid) or number is None:
        return Passed()
    sockets = []
    for i in range(min(number, MOST_PASSED)):
        try:
            sock = socket.socket(fileno=FIRST_FD + i)
        except OSError:
            continue  # not a socket, so it is not for a listener
        sock.set_inheritable(False)
        sock.setblocking(False)
        sockets.append((names[i] if i < len(names) else "unknown", sock))
    return Passed(sockets)


def _fits(
    one: tuple[str, socket.socket], name: str | None, family: socket.AddressFamily, address: tuple[str, int]
) -> bool:
    given, sock = one
    if sock.family != family or not _listens(sock):
        return False
    bound = sock.getsockname()[:2]
    return bound == address or (address[1] == 0 and given == name and bound[0] == address[0])


def _listens(sock: socket.socket) -> bool:
    stream = sock.type == socket.SOCK_STREAM
    return stream and bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


def _where(sock: socket.socket) -> str:
    with contextlib.suppress(OSError):
        name = sock.getsockname()
        if not isinstance(name, tuple):
            return str(name)
        host, port = name[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return "?"


def _port(sock: socket.socket) -> int | None:
    with contextlib.suppress(OSError):
        name = sock.getsockname()
        return int(name[1]) if isinstance(name, tuple) else None
    return None


def _inode(sock: socket.socket) -> int:
    """Return the number that all duplicates of a socket share."""
    return os.fstat(sock.fileno()).st_ino
