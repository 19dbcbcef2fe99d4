"""The scope that a route worker's pattern finds in an address: what peers write there costs no more than its length."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from shm.contract.scope_pattern import compile_scope_pattern
from shm.contract.source_routes import RouteWorkerSetup, Stop
from workers.source_routes.table import Scopes

ROOT = Path(__file__).parents[3]
CPU = 20  # seconds of CPU; one search takes some ms, with going back more than the age of the world
# Patterns for which an engine that goes back takes 2 to the power of the length, or its cube.
CATASTROPHIC = [r"(a+)+$", r"(?:a|a)*(b)$", r"(?:a?){30}(a{30})$", r"(?:.*a){12}(b)$", r"(a*)*c", r"a*a*a*(b)"]
MOST = 65_535  # octets: the largest addressOctets


def limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU, CPU))


def scope(pattern: str, name: bytes) -> bytes | None:
    stop = Stop(0, b"W", "W")
    return Scopes([RouteWorkerSetup("w", "collapse", stop, strip="scopes", pattern=pattern)])(0, name)


@pytest.mark.parametrize(
    ("pattern", "name", "found"),
    [
        (r"([0-9]+)$", b"node17", b"17"),
        (r"([0-9]+)$", b"node", None),
        (r"^(a)?x", b"x", None),
        (r"^([^.]+)\.", b"eu.node", b"eu"),
        ("é(.)", "xéß".encode(), "ß".encode()),
        (r"([0-9]+)$", b"\xff17", b"17"),
    ],
)
def test_what_a_pattern_finds(pattern: str, name: bytes, found: bytes | None) -> None:
    assert scope(pattern, name) == found


@pytest.mark.parametrize("pattern", CATASTROPHIC)
def test_no_pattern_goes_back(pattern: str) -> None:
    """In a process of its own, because nothing else could end the search of an engine that does."""
    program = (
        "from tests.unit.workers.test_scopes import MOST, scope\n"
        f"assert scope({pattern!r}, b'a' * (MOST - 1) + b'!') is None"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, preexec_fn=limit, check=False)
    assert done.returncode == 0


@pytest.mark.parametrize("pattern", ["(a)(?=b)", r"(a)\1", "(", "a", "(a)(b)", "(?<!a)(b)"])
def test_what_is_no_pattern(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"is not a regular expression of RE2|groups"):
        compile_scope_pattern(pattern)
