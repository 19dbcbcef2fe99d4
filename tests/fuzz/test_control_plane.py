"""Whatever the workers tell the control plane: the core goes on."""

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bench import contract as n
from bench.contract import C_ATTACH
from core.process.router import Core
from shm.contract.control import Setup, WorkerGone
from shm.contract.payloads import PAYLOADS
from tests.model.memory import Memory

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
