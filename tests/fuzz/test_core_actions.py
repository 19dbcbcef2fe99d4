"""Whatever the workers write into rings and arenas: the core goes on, and stays inside its memory."""

import os
import subprocess
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bench import contract as n
from bench.contract import C_ATTACH
from core.process.router import Core
from shm.contract.control import Setup, WorkerGone
from shm.contract.payloads import PAYLOADS
from tests.model.memory import Memory

ROOT = Path(__file__).parents[2]
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


@pytest.fixture(scope="session")
def fuzzer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The forwarder under sanitizers, fed with nonsense."""
    program = tmp_path_factory.mktemp("fuzz") / "core_actions"
    source = Path(__file__).with_name("core_actions.c")
    command = ["gcc", "-std=gnu11", "-O1", "-g", "-pthread", *WARNINGS, *SANITIZERS]
    command += [f"-I{ROOT}", str(source), "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return program


@pytest.mark.parametrize("seed", range(4))
def test_forwarder_survives(fuzzer: Path, seed: int) -> None:
    """No crash, no step outside a segment or table, no leak; all tables are empty in the end."""
    rounds = os.environ.get("FUZZ_ROUNDS", "10000")
    done = subprocess.run([str(fuzzer), str(seed), rounds], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


SETUP = Setup("core", 1, 1, "/none", "me", "0", 1, [-1])


SMALL = st.integers(0, 5)
VALUES = st.one_of(
    SMALL, st.none(), st.booleans(), st.text(max_size=8), st.lists(SMALL, max_size=3), st.integers(0, 2**40)
)
SHAPED = st.lists(VALUES, max_size=12).map(msgspec.msgpack.encode)


@given(
    st.lists(
        st.tuples(st.sampled_from([*PAYLOADS, 0, 7, 2**32 - 1]), st.one_of(SHAPED, st.binary(max_size=60))), max_size=20
    ),
    st.lists(st.binary(min_size=64, max_size=64), max_size=20),
)
@example([(C_ATTACH, bytes.fromhex("96000100a1ffc2c0"))], [])  # a name that is no UTF-8
@settings(max_examples=300, deadline=None)
def test_control_plane_survives(controls: list[tuple[int, bytes]], noise: list[bytes]) -> None:
    """Nothing a worker says, in any shape, raises in the core."""
    memory = Memory(1)
    core = Core(SETUP, memory, b"s")
    actions = n.Producer(memory.rings, n.action_ring_offset(0))
    arena = n.ArenaOwner(memory.arenas[0])
    for kind, payload in controls:
        block = arena.write(payload)
        assert block is not None
        actions.push(n.pack(type=n.A_CONTROL, state=kind, arena=0, block=block))
    for record in noise:
        actions.push(record)
    actions.publish()
    core.step(1)
    core.worker_gone(WorkerGone(0, 1), 2)
    counts = core.forwarder.counts()
    assert counts["links"] == counts["incoming"] == counts["outgoing"] == len(core.links) == 0
