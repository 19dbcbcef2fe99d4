"""The edge router's questions: does a link route for an address exist beyond the uplink?

An attach for which no link route here has a broker waits for an answer:

    answered: routed            the attach goes on over the uplink, or is refused if no broker is there
    answered: not routed        this router decides
    no answer within 3 s, or no uplink that takes questions: this router decides, a few in each turn
"""

import logging
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Final

import msgspec

from core.addresses.agent_address import is_own
from core.edge import words
from core.edge.place import LOOKUP, Complain
from core.interior.message import BadMessageError
from core.links.base import Base
from core.links.connections import Hop
from shm.contract.payloads import Attach, ConnectionOpened, Detach

ASKED_AT: Final = f"_local/{LOOKUP}"
ANSWERS: Final = "_$qd.edge_lookup_answers"
PATIENCE_NS: Final = 3_000_000_000
Name = tuple[int, int, int]  # worker, index and generation of a link in it
Host = tuple[int, int]  # worker, index of a connection in it
MOST_WAITING: Final = 10_000  # attaches; for further ones this router decides at once
MOST_OF_ONE: Final = 1250  # the same, of one connection
PORTION: Final = 1  # attaches that are decided before others have their turn: some 0.1 ms


class Waiting(msgspec.Struct):
    """An attach that waits for an answer."""

    worker: int
    attach: Attach
    connection: ConnectionOpened
    number: int  # of the question
    since: int  # nanoseconds

    @property
    def name(self) -> Name:
        """Its link."""
        return self.worker, self.attach.link, self.attach.generation

    @property
    def host(self) -> Host:
        """Its connection."""
        return self.worker, self.attach.connection


# Decides about a worker's attach after the answer: via the hop beyond if a broker is there (True); if None, locally.
Decide = Callable[[int, Attach, ConnectionOpened, Hop | None, bool], None]


class Lookup:
    """All unanswered questions of this router."""

    def __init__(self, base: Base, decide: Decide, complain: Complain) -> None:
        self._base = base
        self._local = base.local
        self._complain = complain
        self._reply_to = f"amqp:/_edge/{base.me.router_id}/{ANSWERS}"
        self._uplink: Hop | None = None  # the uplink, while it takes questions
        self._waiting: OrderedDict[str, Waiting] = OrderedDict()  # by correlation id, in the order of their numbers
        self._numbers: dict[Name, str] = {}  # of the questions, by the links that wait
        self._of_one: Counter[Host] = Counter()  # attaches of a connection that wait
        self._number = 0
        self._ended = 0  # the last question that got no answer because its uplink ended
        self._decide = decide
        base.local.listen(f"_local/{ANSWERS}", self._answered)

    def begin(self, uplink: Hop) -> None:
        """Start asking over the uplink."""
        self._uplink = uplink

    def end(self) -> None:
        """Stop asking. This router decides about the attaches that wait, in the coming steps."""
        self._uplink = None
        self._ended = self._number

    def ask(self, worker: int, attach: Attach, connection: ConnectionOpened, address: str) -> bool:
        """Ask about an attach to an address as the whole network spells it.

        Return False to decide at once.
        """
        if self._uplink is None or is_own(address) or len(self._waiting) >= MOST_WAITING:
            return False
        if self._of_one[worker, attach.connection] >= MOST_OF_ONE:
            return False
        self._number += 1
        number = f"client-{self._number:024x}"
        if not self._local.send(ASKED_AT, words.ask(self._reply_to, number, address, attach.outgoing)):
            return False
        waiting = self._waiting[number] = Waiting(worker, attach, connection, self._number, self._base.forwarder.now)
        self._numbers[waiting.name] = number
        self._of_one[waiting.host] += 1
        self._base.admissions.waits(worker, attach, 1)
        return True

    def _answered(self, content: bytes, _: int) -> None:
        try:
            answer = words.answered(content)
        except BadMessageError as error:
            self._complain("sent an unreadable answer to a question about an address: ", str(error))
            return
        one = self._waiting.get(answer.correlation)
        if one is not None and one.number > self._ended:
            self._take(answer.correlation)
            beyond = self._uplink if answer.routed else None
            self._decide(one.worker, one.attach, one.connection, beyond, answer.reached)

    def cancel(self, worker: int, detach: Detach) -> bool:
        """Drop the question of a link that is gone. Return False if there was none."""
        number = self._numbers.get((worker, detach.link, detach.generation))
        return number is not None and self._take(number) is not None

    def _take(self, number: str) -> Waiting | None:
        one = self._waiting.pop(number, None)
        if one is not None:
            self._waits_no_more(one)
        return one

    def _waits_no_more(self, one: Waiting) -> None:
        del self._numbers[one.name]
        self._base.admissions.waits(one.worker, one.attach, -1)
        self._of_one[one.host] -= 1
        if not self._of_one[one.host]:
            del self._of_one[one.host]

    def forget_worker(self, worker: int) -> None:
        """Drop the questions of a dead worker's links."""
        for number in [number for number, one in self._waiting.items() if one.worker == worker]:
            self._take(number)

    @property
    def restless(self) -> bool:
        """Whether attaches wait for nothing any more that a step has left to the next one."""
        return self._due(self._base.forwarder.now)

    def _due(self, now: int) -> bool:
        """Whether this router decides about the attach that has waited longest."""
        if not self._waiting:
            return False
        first = next(iter(self._waiting.values()))
        return first.number <= self._ended or now - first.since >= PATIENCE_NS

    def step(self, now: int) -> None:
        """Decide about a portion of the attaches whose uplink has ended or that have waited three seconds.

        ``now`` is in nanoseconds.
        """
        for _ in range(PORTION):
            if not self._due(now):
                return
            _, one = self._waiting.popitem(last=False)
            self._waits_no_more(one)
            if one.number > self._ended:
                self._complain("did not answer a question about an address", level=logging.INFO)  # it may be busy
            self._decide(one.worker, one.attach, one.connection, None, False)
