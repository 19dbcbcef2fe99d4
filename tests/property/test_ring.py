"""A ring behaves like a bounded list, whoever restarts in the middle."""

import mmap
import struct
from collections import deque

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bench import contract

HEAD, TAIL = 0, 64  # where ring.h has its indices


class Ring(RuleBasedStateMachine):
    """``written`` is not visible yet, ``published`` is, ``held`` is read but not given back."""

    @initialize(capacity=st.sampled_from([2, 4, 8]), start=st.sampled_from([0, 5, 2**32 - 3, 2**64 - 6]))
    def format(self, capacity: int, start: int) -> None:
        self.memory = mmap.mmap(-1, contract.ring_bytes(capacity))
        contract.format_ring(self.memory, capacity)
        struct.pack_into("<Q", self.memory, HEAD, start)
        struct.pack_into("<Q", self.memory, TAIL, start)
        self.capacity = capacity
        self.number = 0
        self.written: deque[int] = deque()
        self.published: deque[int] = deque()
        self.held: deque[int] = deque()
        self.producer = contract.Producer(self.memory)
        self.consumer = contract.Consumer(self.memory)

    def used(self) -> int:
        return len(self.written) + len(self.published) + len(self.held)

    @rule(count=st.integers(1, 9))
    def push(self, count: int) -> None:
        for _ in range(count):
            fits = self.used() < self.capacity
            assert self.producer.push(contract.pack(type=1, length=self.number)) is fits
            if fits:
                self.written.append(self.number)
                self.number += 1

    @rule()
    def publish(self) -> None:
        assert self.producer.publish() is bool(self.written)
        self.published += self.written
        self.written.clear()

    @rule(count=st.integers(1, 9))
    def pop(self, count: int) -> None:
        for _ in range(count):
            record = self.consumer.pop()
            if not self.published:
                assert record is None
                return
            assert record == contract.pack(type=1, length=self.published[0])
            self.held.append(self.published.popleft())

    @rule()
    def give_back(self) -> None:
        self.consumer.give_back()
        self.held.clear()

    @rule()
    def producer_restarts(self) -> None:
        """What it had not published never existed."""
        self.producer = contract.Producer(self.memory)
        self.written.clear()

    @rule()
    def consumer_restarts(self) -> None:
        """What it had not given back is read again."""
        self.consumer = contract.Consumer(self.memory)
        self.published = self.held + self.published
        self.held = deque()

    @precondition(lambda self: self.used())
    @rule()
    def consumer_dies(self) -> None:
        """The producer discards everything on its behalf; its successor starts empty."""
        self.producer.discard()
        self.consumer = contract.Consumer(self.memory)
        for queue in (self.written, self.published, self.held):
            queue.clear()

    @invariant()
    def pending_tells_the_truth(self) -> None:
        if hasattr(self, "consumer"):
            assert self.consumer.pending() is bool(self.published)


TestRing = Ring.TestCase
TestRing.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
