"""What happened to every message: the promises of the router are checked here."""

from dataclasses import dataclass, field

from bench import contract

RANK = {
    contract.S_REJECTED: 4,
    contract.S_DECLARED: 4,
    contract.S_ACCEPTED: 3,
    contract.S_MODIFIED: 2,
    contract.S_RELEASED: 1,
}


@dataclass
class Message:
    """One message; ``alive``: its sender still waits for an outcome."""

    number: int
    address: str
    presettled: bool
    multicast: bool
    sender: tuple[int, int]  # worker and link generation
    alive: bool = True
    settled: list[int] = field(default_factory=list)  # outcomes told to the sender with settlement
    told: list[int] = field(default_factory=list)  # outcomes told without
    copies: int = 0
    outcomes: list[int] = field(default_factory=list)  # by receivers, settled
    pending: list[int] = field(default_factory=list)  # by receivers, waiting for the sender to settle
    disturbed: bool = False  # a link or worker was lost while it had copies there


class Ledger:
    """All messages of a run."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def new(self, address: str, presettled: bool, multicast: bool, sender: tuple[int, int]) -> Message:
        message = Message(len(self.messages), address, presettled, multicast, sender)
        self.messages.append(message)
        return message

    def tell(self, number: int, state: int, settled: bool) -> None:
        """A sender was told an outcome."""
        message = self.messages[number]
        if not settled:
            message.told.append(state)
            return
        assert not message.settled, f"message {number} was settled twice"
        message.settled.append(state)
        message.alive = False
        known = [told for told in message.told if told in RANK]
        assert not known or state == known[-1], f"message {number}: told {known[-1]:#x}, settled {state:#x}"
        self.check_truth(message, state)

    def forget_untold(self) -> None:
        """The core died: outcomes that it had not passed on are nobody's any more."""
        for message in self.messages:
            if not message.told and not message.settled:
                message.outcomes.clear()
                message.pending.clear()

    def check_truth(self, message: Message, state: int) -> None:
        """An outcome told to a sender is one that a receiver gave, or what the router says of its own."""
        given = {*message.outcomes, *message.pending}
        if state == contract.S_ACCEPTED:
            assert state in given, f"message {message.number}: accepted by nobody"
        if message.multicast or message.disturbed or not given:
            return
        assert state in given, f"message {message.number}: told {state:#x}, receivers said {given}"

    def check_merged(self, message: Message) -> None:
        """Multicast: rejected > accepted > modified > released, over all copies."""
        given = {*message.outcomes, *message.pending}
        if not message.multicast or not message.settled or not given:
            return
        expected = max(RANK.get(state, 0) for state in given)
        told = RANK.get(message.settled[0], 0)
        if message.disturbed:
            assert told >= expected, f"message {message.number}: a better outcome was lost"
        else:
            assert told == expected, f"message {message.number}: told {told}, merged {expected}"

    def check_end(self) -> None:
        """Every sender that still cared has been told once; nobody got a message twice."""
        for message in self.messages:
            if not message.presettled:
                assert not message.alive, f"message {message.number} was never settled"
            if not message.multicast:
                assert message.copies <= 1, f"message {message.number} was sent {message.copies} times"
            self.check_merged(message)
