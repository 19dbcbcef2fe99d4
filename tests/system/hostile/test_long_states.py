"""A receiver that says long outcomes, and a sender that settles none of them: each state is kept until then."""

from tests.support.clients.frame_client import MESSAGE, FrameClient, transfer
from tests.support.clients.octets import DISPOSITION, MODIFIED, Symbol, said, state
from tests.support.hostile.target import Target
from tests.support.hostile.verdict import MIB, Bounds, Verdict
from tests.support.running import RunningRouter, roles

LINKS = 40
EACH = 100  # deliveries of a link, fewer than its credit
LONG = 15_000  # octets of an outcome
KEPT = 16 * MIB  # of the outcomes of each connection
MORE = 32 * MIB


def test_long_outcomes_that_nobody_settles(attacked: RunningRouter, target: Target) -> None:
    """Those beyond the bound of a connection pass without their fields, and all memory goes back."""
    address = ("127.0.0.1", target.amqp)
    with (
        Verdict(attacked, Bounds(memory=16 * MIB)),
        FrameClient(address, "says") as receiver,
        FrameClient(address, "settles-nothing") as sender,
    ):
        processes = {role: one for role, one in roles(attacked.process.pid).items() if role.startswith("worker")}
        before = {role: one.memory_full_info().uss for role, one in processes.items()}
        receiver.begin()
        sender.begin()
        for link in range(LINKS):
            receiver.receiver(f"hostile/states.{link}", link, credit=EACH, rcv_mode=1)
            sender.sender(f"hostile/states.{link}", link, rcv_mode=1)
        fields = []
        for number in range(LINKS * EACH):
            sender.write(transfer(number, MESSAGE, handle=number // EACH))
            got = receiver.take(1, number // EACH)[0]
            outcome = state(MODIFIED, False, True, {Symbol("x-opt-why"): f"{number:08}" + "x" * LONG})
            receiver.write(said(DISPOSITION, receiver=True, first=got["id"], state=outcome))
            answer = sender.expect(DISPOSITION)
            assert answer["state"].descriptor == MODIFIED
            fields.append(len(answer["state"].value))
            sender.passed.clear()
            receiver.passed.clear()
        assert fields[0] == 3
        assert fields[-1] == 0
        grown = {role: one.memory_full_info().uss - before[role] for role, one in processes.items()}
        assert sum(grown.values()) < 2 * KEPT + MORE, grown
