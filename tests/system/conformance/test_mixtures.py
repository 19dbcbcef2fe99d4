"""Many rules at once: what comes and goes on several links of a session in any order (AMQP 1.0 parts 2.5 and 2.6)."""

import random

import pytest

from tests.support.beds.conformance import Connect
from tests.support.clients.frame_client import disposition, flow, message, transfer
from tests.support.clients.octets import ACCEPTED, FLOW, TRANSFER, Frame, state

PLENTY = 100


class Listener:
    """Three receiving links in one session with small frames; it notes what may come, and what comes."""

    def __init__(self, connect: Connect, name: str) -> None:
        self.client = connect(0, max_frame=512)
        self.client.begin(in_window=0)
        self.frames = 0  # of the session, that have come
        self.window = 0  # those that may have come
        self.counts, self.limits = [0, 0, 0], [0, 0, 0]  # deliveries that have begun, and that may have
        self.texts: list[list[bytes]] = [[], [], []]
        self.going_on: list[Frame | None] = [None, None, None]
        for handle in range(3):
            self.client.receiver(f"{name}.{handle}", handle)
        self.links = {self.client.handles[0, handle]: handle for handle in range(3)}

    def step(self, window: int, handle: int, credit: int, drain: bool) -> None:
        """A FLOW; what comes until it has been read keeps to the last one or to this, what comes later to this."""
        limits, before = (self.frames + window, self.counts[handle] + credit), (self.window, self.limits[handle])
        self.window, self.limits[handle] = max(limits[0], before[0]), max(limits[1], before[1])
        link = {"handle": handle, "count": self.counts[handle], "credit": credit, "drain": drain}
        self.client.write(flow(next_in=self.frames, in_window=window, **link))
        for got in self.client.round_trip():
            self.hear(got)
        self.window, self.limits[handle] = limits

    def hear(self, got: Frame) -> None:
        if got.code == FLOW and got["handle"] is not None:
            handle = self.links[got["handle"]]
            assert got["count"] >= self.counts[handle]
            self.counts[handle] = got["count"]  # it may have used up the rest of the credit
            assert got["next_out"] == self.frames
        if got.code == TRANSFER:
            self.frames += 1
            assert self.frames <= self.window
            self.take(got, self.links[got["handle"]])

    def take(self, got: Frame, handle: int) -> None:
        if self.going_on[handle] is None:
            self.counts[handle] += 1
            assert self.counts[handle] <= self.limits[handle]
            self.texts[handle].append(b"")
        self.texts[handle][-1] += got.payload
        self.going_on[handle] = got if got["more"] else None


@pytest.mark.parametrize("seed", range(6))
def test_windows_and_credit_are_kept_whatever_they_are(connect: Connect, name: str, seed: int) -> None:
    """2.5.6, 2.6.7: three links in one session, messages of one to twenty frames, three hundred FLOWs at random."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    listener = Listener(connect, name)
    sent = [[message(chr(97 + n) * chance.choice((1, 400, 600, 9000))) for n in range(20)] for _ in range(3)]
    for handle, texts in enumerate(sent):
        to = connect()
        to.sender(f"{name}.{handle}")
        to.write(*(transfer(number, text, settled=number % 3 == 0) for number, text in enumerate(texts)))
    for _ in range(300):
        listener.step(chance.choice((0, 1, 2, 3, 7)), chance.randrange(3), chance.choice((0, 0, 1, 2, 5)),
                      chance.random() < 0.2)  # fmt: skip
    while sum(map(len, listener.texts)) < 60 or any(listener.going_on):
        for handle in range(3):
            listener.step(PLENTY, handle, PLENTY, drain=False)
    assert listener.texts == sent


class Talker:
    """A client that sends on three links at once, in random frames, and keeps to the window and its credit."""

    def __init__(self, connect: Connect, name: str, chance: random.Random) -> None:
        self.chance = chance
        self.at, self.to = connect(), connect(0, narrow=True)
        self.window = self.to.begin()["in_window"]
        self.frames = self.ids = 0
        self.limits, self.counts = [0, 0, 0], [0, 0, 0]
        self.left: list[list[bytes]] = [[], [], []]  # parts of the delivery that goes on
        self.kept: list[list[tuple[int, bytes, bool]]] = [[], [], []]  # id, content and settled of those on their way
        self.now: list[tuple[int, bytes, bool]] = [(0, b"", False)] * 3
        for handle in range(3):
            self.at.receiver(f"{name}.{handle}", handle, credit=1000)
            got = self.to.sender(f"{name}.{handle}", handle)
            self.limits[handle] = got["count"] + got["credit"]
        self.links = {self.to.handles[0, handle]: handle for handle in range(3)}

    def say(self, handle: int) -> None:
        """The next frame of a link, which may be the first of a delivery, its last, or its abort."""
        more, chance = {}, self.chance
        first = not self.left[handle]
        if first:
            self.counts[handle] += 1
            text = message(chr(97 + handle) * chance.choice((1, 50, 3000)))
            size = chance.choice((100, 400))
            self.left[handle] = [text[start : start + size] for start in range(0, len(text), size)]
            self.now[handle] = (self.ids, text, chance.random() < 0.3)
            more = {"settled": self.now[handle][2]}
            self.ids += 1
        part = self.left[handle].pop(0)
        aborted = chance.random() < 0.05
        if aborted:
            self.left[handle] = []
        number = self.now[handle][0] if first else None
        more |= {"more": bool(self.left[handle])} | ({"aborted": True} if aborted else {})
        self.to.write(transfer(number, part, handle=handle, **more))
        self.frames += 1
        if not self.left[handle] and not aborted:
            self.kept[handle].append(self.now[handle])

    def hear(self) -> None:
        """What has arrived is accepted; then the router opens the window or gives credit."""
        for handle, kept in enumerate(self.kept):
            for number, text, settled in kept:
                (arrived,) = self.at.take(1, handle)
                while arrived["aborted"]:
                    (arrived,) = self.at.take(1, handle)
                assert arrived.payload == text
                if not settled:
                    self.at.write(disposition(arrived["id"], state=state(ACCEPTED)))
                    assert self.to.settled(number, number) == [state(ACCEPTED)]
            kept.clear()
        self.to.write(flow(next_out=self.frames, echo=True))
        got = self.grant(self.to.expect(FLOW, 0))
        while got["next_in"] != self.frames:
            got = self.grant(self.to.expect(FLOW, 0))
        self.window = got["next_in"] + got["in_window"]
        for one in self.to.round_trip():
            if one.code == FLOW:
                self.grant(one)

    def grant(self, got: Frame) -> Frame:
        """Notes the credit in a FLOW."""
        if got["handle"] is not None:
            handle = self.links[got["handle"]]
            self.limits[handle] = max(self.limits[handle], got["count"] + got["credit"])
        return got

    def may(self, handle: int) -> bool:
        return self.frames < self.window and (bool(self.left[handle]) or self.counts[handle] < self.limits[handle])


@pytest.mark.parametrize("seed", range(6))
def test_any_mixture_of_deliveries_arrives(connect: Connect, name: str, seed: int) -> None:
    """2.5.6, 2.6.7, 2.6.14: settled, unsettled and aborted ones of up to thirty frames, on three links."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    talker = Talker(connect, name, chance)
    for _ in range(600):
        ready = [handle for handle in range(3) if talker.may(handle)]
        if ready:
            talker.say(chance.choice(ready))
        else:
            talker.hear()
    while any(talker.left):
        ready = [handle for handle in range(3) if talker.left[handle] and talker.may(handle)]
        if ready:
            talker.say(ready[0])
        else:
            talker.hear()
    talker.hear()
    talker.to.close()
