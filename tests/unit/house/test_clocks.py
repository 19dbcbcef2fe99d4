"""A clock that is set, or jumps, changes no decision: only log and live page tell the time of day."""

import re
from pathlib import Path

import psutil
import pytest

from routerd.exporter.observer import _age

ROOT = Path(__file__).resolve().parents[3]
SOURCES = [
    path
    for package in ("core", "routerd", "shm", "workers")
    for path in sorted((ROOT / package).rglob("*"))
    if path.suffix in (".py", ".h", ".c", ".pyx", ".pxi", ".pxd")
    and (path.suffix != ".c" or not path.with_suffix(".pyx").exists())  # that one is what Cython wrote
]
WALL = re.compile(
    r"CLOCK_REALTIME|\btime\.(time|time_ns|ctime|gmtime|localtime)\(|datetime\.(now|utcnow|today)|\bgettimeofday"
    r"|\btime\(NULL\)|sem_timedwait|pthread_cond_timedwait"
)
# Who may know the time of day, and why.
TELLS_IT = {
    "core/main.py": "routers tell each other when they started",
    "core/forwarder/recorded.py": "a recording tells when its core began",
    "core/management/node.py": "management tells when the network changed last",
    "core/management/route_managers.py": "management tells since when an application runs its table",
    "core/rmr/active/route_tables.py": "management is told when a table was taken into use",
    "routerd/supervise/certificates.py": "certificates expire by it",
    "routerd/cli/config_file.py": "certificates expire by it",
    "routerd/log/log.py": "lines begin with it",
    "routerd/recorder/main.py": "rows of the flow log have it, and its files stand in folders named by it",
    "routerd/supervise/flight.py": "a recording's name has the time of the death",
    "shm/memory/flight.py": "a recording tells when it was made",
    "shm/memory/segment.py": "the flow log tells the lives of a router apart by when they began",
    "routerd/exporter/collector.py": "Prometheus is told when the network changed last",
    "routerd/exporter/observer.py": "Prometheus is told when processes were started",
    "routerd/exporter/tracing.py": "spans have it",
    "routerd/exporter/status.py": "the live page shows it",
    "routerd/exporter/worries.py": "the live page tells which certificates soon expire",
}


def test_nothing_else_knows_the_time_of_day() -> None:
    found = {str(path.relative_to(ROOT)) for path in SOURCES if WALL.search(path.read_text(errors="replace"))}
    assert found == set(TELLS_IT)


@pytest.mark.parametrize("text", ["time.time()", "datetime.now()", "sem_timedwait(s, &t)", "CLOCK_REALTIME"])
def test_the_pattern_finds_what_it_is_for(text: str) -> None:
    assert WALL.search(text)


def test_the_age_of_a_process_does_not_come_from_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock set a day ahead makes nothing a day old."""
    before = _age(psutil.Process().pid)
    monkeypatch.setattr("time.time", lambda: 4e9)
    assert 0 <= _age(psutil.Process().pid) - before < 3600
    assert before < psutil.Process().cpu_times().user + 24 * 3600
