"""Starts load clients, leads a group of them through one transfer, and collects their figures."""

from __future__ import annotations

import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType

import msgspec

from bench.client import READY
from bench.results import ClientResult, Latency, Run
from bench.targets import ROOT, BenchError, Running

WIRE = ROOT / "bench" / "build" / "wire"
RMR = ROOT / "bench" / "build" / "rmr"
LIMIT_S = 60.0


class ClientSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One client process. ``count`` is per link, ``size`` is in bytes; a receiver sleeps ``pause_us`` per message.

    ``far`` is the port of pingpong's receiver; 0: the same port. Only the ``proton`` client knows ``tls``.
    """

    mode: str
    port: int
    address: str
    count: int = 0
    size: int = 100
    presettled: bool = False
    credit: int = 1000
    links: int = 1
    pause_us: int = 0
    listen: bool = False
    far: int = 0
    tls: bool = False

    def command(self, kind: str) -> list[str]:
        """Return the command line of the ``proton``, ``wire``, ``rmr`` or ``python`` client."""
        commands = {"proton": self._proton, "wire": self._wire, "rmr": self._rmr, "python": self._python}
        return commands[kind]()

    def _rmr(self) -> list[str]:
        """A receiver is ready after the router, if there is one, has connected to it."""
        words = [str(RMR), self.mode, str(self.port), str(self.count), str(self.size)]
        return words + ["connected"] * (self.mode == "recv" and not self.listen)

    def _proton(self) -> list[str]:
        words = [sys.executable, "-m", "bench.client", self.mode, "--step"]
        for name in ("port", "address", "count", "size", "credit", "links"):
            words += [f"--{name}", str(getattr(self, name))]
        words += ["--pause-us", str(self.pause_us), "--far", str(self.far)]
        return words + [f"--{name}" for name in ("presettled", "listen", "tls") if getattr(self, name)]

    def _python(self) -> list[str]:
        return [sys.executable, "-m", "bench.large", str(self.port), self.address, str(self.size)]

    def _wire(self) -> list[str]:
        words = [str(WIRE), self.mode, str(self.port), self.address, str(self.count), str(self.size), "step"]
        words += [f"credit={self.credit}", f"links={self.links}"] + [f"far={self.far}"] * bool(self.far)
        return words + [name for name in ("presettled", "listen") if getattr(self, name)]


class Client:
    """A running client process, controlled line by line."""

    def __init__(self, spec: ClientSpec, kind: str) -> None:
        self.spec = spec
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  closed in __exit__
        self._process = subprocess.Popen(  # noqa: S603  every word is ours
            spec.command(kind),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            bufsize=0,  # a buffer here would hide lines from select()
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()

    def line(self, limit_s: float = LIMIT_S) -> bytes:
        """Return the next line of its output. Raises ``BenchError`` with its error text if it ends or stalls."""
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], limit_s)
        if not readable:
            raise BenchError(f"{self._name}: nothing happened for {limit_s:.0f} s")
        line = self._process.stdout.readline()
        if not line:
            raise self._ended()
        return line

    def _ended(self) -> BenchError:
        status = self._process.wait(LIMIT_S)
        self._errors.seek(0)
        complaint = self._errors.read().decode(errors="replace").strip()
        return BenchError(f"{self._name}: {complaint or f'ended with status {status}'}")

    @property
    def _name(self) -> str:
        return f"{self.spec.mode} client on {self.spec.address!r}"

    def await_ready(self) -> None:
        """Wait until its links are attached."""
        if self.line().strip() != READY.encode():
            raise BenchError(f"{self._name}: is not ready")

    def go(self) -> None:
        """Let it send."""
        self._tell()

    def result(self) -> ClientResult:
        """Wait for its figures."""
        return msgspec.json.decode(self.line(), type=ClientResult)

    def finish(self) -> None:
        """Let it close its connections and end."""
        self._tell()
        try:
            self._process.wait(LIMIT_S)
        except subprocess.TimeoutExpired as error:
            raise BenchError(f"{self._name}: does not end within {LIMIT_S:.0f} s") from error

    def _tell(self) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(b"\n")
        except BrokenPipeError as error:
            raise self._ended() from error


def transfer(
    running: Running, receivers: Sequence[ClientSpec], senders: Sequence[ClientSpec], *, kind: str, sending: str = ""
) -> Run:
    """Make one transfer: all clients attach, and senders send between two readings of the router's CPU time.

    Clients are of one ``kind``, senders of the kind ``sending`` if it is given. Messages of receivers that echo are
    not counted.
    """
    with ExitStack() as stack:
        takers = [stack.enter_context(Client(spec, kind)) for spec in receivers]
        for client in takers:
            client.await_ready()
        givers = [stack.enter_context(Client(spec, sending or kind)) for spec in senders]
        for client in givers:
            client.await_ready()
        before, started = running.cpu(), time.monotonic()
        for client in givers:
            client.go()
        results = [client.result() for client in (*givers, *takers)]
        seconds, after = time.monotonic() - started, running.cpu()
        memory = running.memory()
        for client in (*givers, *takers):
            client.finish()
    return summary(results, {role: after[role] - before.get(role, 0.0) for role in after}, memory, seconds)


def summary(
    results: Sequence[ClientResult], cpu_seconds: dict[str, float], memory: dict[str, int], seconds: float
) -> Run:
    """Return the figures of a transfer from those of its clients.

    Each percentile is the worst among receivers. The rate is over the slowest receiver's interval, or over ``seconds``
    if that is unknown.
    """
    received = [one for one in results if one.mode in ("recv", "pingpong")]
    sent = [one for one in results if one.mode == "send"]
    n = sum(one.n for one in received)
    if not n:
        raise BenchError("no message arrived")
    longest = max(one.seconds for one in received) or seconds
    latencies = [one.latency_us for one in received if one.latency_us is not None]
    return Run(
        messages=n,
        bad=sum(one.bad for one in results),
        rate=n / longest,
        router_cpu={role: spent * 1e6 / n for role, spent in cpu_seconds.items()},
        clients_cpu=sum(one.cpu_us_per_message * one.n for one in results) / n,
        senders_cpu=sum(one.cpu_us_per_message * one.n for one in sent) / n,
        senders_s=max((one.seconds for one in sent), default=0.0),
        latency_us=worst(latencies),
        memory=memory,
    )


def worst(latencies: Sequence[Latency]) -> Latency | None:
    """Return the highest of each percentile."""
    if not latencies:
        return None
    return Latency(
        p50=max(one.p50 for one in latencies),
        p99=max(one.p99 for one in latencies),
        p999=max(one.p999 for one in latencies),
    )
