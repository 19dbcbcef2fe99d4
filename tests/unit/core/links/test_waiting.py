"""Messages of the core's own that wait: a receiver that takes its messages gets all of them, whatever others leave."""

import pytest

from bench import contract as n
from bench.contract import C_ATTACH, C_DETACH
from core.links.local import LENT_TO_ONE, MESSAGE_LIMIT
from core.links.waiting import WAITING_BYTES
from shm.contract.payloads import Attach, Detach
from tests.support.beds.local import Bed

STUCK = range(2, 11)  # receivers that take nothing, and leave room for the messages of another one
HEALTHY = 11
BURST = [b"%d" % i * 500 for i in range(LENT_TO_ONE + 4)]


class Crowded(Bed):
    """A core with receivers of the addresses to.2, to.3 and so on."""

    def __init__(self, links: range) -> None:
        self.sent: list[dict[str, int]] = []  # messages that their receivers have not taken
        super().__init__()
        for link in links:
            self.say(C_ATTACH, Attach(link, 1, 0, f"r{link}", True, f"to.{link}"))
        self.step()

    def step(self) -> list[dict[str, int]]:
        found = super().step()
        self.sent += [record for record in found if record["type"] == n.W_SEND]
        return found

    def take(self, link: int) -> list[bytes]:
        """Let a receiver take all that it gets."""
        taken: list[bytes] = []
        self.step()
        while record := next((record for record in self.sent if record["link"] == link), None):
            self.sent.remove(record)
            taken.append(self.core_arena.read(record["block"]))
            self.act(type=n.A_DONE, delivery=record["peer"])
            self.step()
        return taken

    def fill(self, links: range) -> None:
        """Leave messages at receivers, and let further ones wait until some are refused."""
        full = False
        while not full:
            full = not all(self.core.local.send(f"to.{link}", b"x" * 10_000) for link in links)
        self.step()


@pytest.mark.parametrize("stuck", [STUCK[:1], STUCK], ids=["one", "many"])
@pytest.mark.parametrize("first", [True, False])
def test_a_receiver_loses_nothing_to_those_that_take_nothing(stuck: range, first: bool) -> None:
    """They let as much wait as may; it gets a burst from before that, or from after it."""
    bed = Crowded(range(STUCK.start, HEALTHY + 1))
    if not first:
        bed.fill(stuck)
    assert all(bed.core.local.send(f"to.{HEALTHY}", content) for content in BURST)
    if first:
        bed.fill(stuck)
    assert bed.take(HEALTHY) == BURST


def test_who_has_most_waiting_loses_messages_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    bed = Crowded(range(STUCK.start, HEALTHY + 1))
    bed.fill(STUCK[:1])
    waiting = bed.core.local.waiting("to.2")
    assert all(bed.core.local.send(f"to.{HEALTHY}", b"x" * 10_000) for _ in BURST)
    assert 0 < waiting - bed.core.local.waiting("to.2") <= 4
    assert "a message of the core's own to 'to.2' was dropped" in caplog.text
    assert f"'to.{HEALTHY}'" not in caplog.text


def test_a_message_for_which_all_others_would_have_to_go_is_refused() -> None:
    """Nobody loses a message to an address with more of them."""
    bed = Crowded(range(STUCK.start, HEALTHY + 1))
    bed.fill(STUCK)
    waiting = [bed.core.local.waiting(f"to.{link}") for link in STUCK]
    results = [bed.core.local.send(f"to.{HEALTHY}", b"x" * 900_000) for _ in range(LENT_TO_ONE + 1)]
    assert not results[-1]
    assert [bed.core.local.waiting(f"to.{link}") for link in STUCK] == waiting


def without_room() -> tuple[Crowded, list[int]]:
    """Receivers have all the room. Return two further ones, too, that have nothing."""
    half = Bed().core.forwarder.counts()["free_large"] // 2
    links = iter(range(STUCK.start, STUCK.start + half // LENT_TO_ONE + 4))
    bed = Crowded(range(STUCK.start, STUCK.start + half // LENT_TO_ONE + 4))
    for link in links:
        for _ in range(LENT_TO_ONE):
            if bed.core.forwarder.counts()["free_large"] > half:
                assert bed.core.local.send(f"to.{link}", b"x" * 1000)
        if bed.core.forwarder.counts()["free_large"] == half:
            break
    bed.step()
    return bed, [next(links), next(links)]


def give_back(bed: Crowded, link: int) -> None:
    """Let a receiver take one message."""
    record = next(record for record in bed.sent if record["link"] == link)
    bed.sent.remove(record)
    bed.act(type=n.A_DONE, delivery=record["peer"])


def test_who_waits_for_room_is_served_before_who_comes_back_for_more() -> None:
    """The only receiver that takes messages always has further ones that wait."""
    bed, (waits, _) = without_room()
    mover = STUCK.start
    assert bed.core.local.send(f"to.{waits}", b"late")
    bed.step()
    assert all(record["link"] != waits for record in bed.sent)
    for _ in range(2):
        assert bed.core.local.send(f"to.{mover}", b"x" * 1000)
    give_back(bed, mover)
    bed.step()
    assert bed.take(waits) == [b"late"]


def test_who_comes_anew_waits_behind_others() -> None:
    """A message does not take the block that another one has waited for."""
    bed, (waits, comes) = without_room()
    assert bed.core.local.send(f"to.{waits}", b"x" * 1000)
    bed.step()
    give_back(bed, STUCK.start)
    bed.core.forwarder.step(2)
    bed.core.local.work()
    assert bed.core.local.send(f"to.{comes}", b"x" * 1000)
    bed.step()
    assert [record["link"] for record in bed.sent if record["link"] in {waits, comes}] == [waits]


def test_who_is_gone_waits_for_no_room() -> None:
    """Receivers come, a message to each finds no room, and they go, while nothing gives a block back."""
    bed, (waits, _) = without_room()
    assert bed.core.local.send(f"to.{waits}", b"x" * 1000)
    for i in range(10):
        bed.say(C_ATTACH, Attach(1000, 1 + i, 0, f"t{i}", True, f"passing.{i}"))
        bed.step()
        assert bed.core.local.send(f"passing.{i}", b"x" * 1000)
        assert len(bed.core.local._roomless) == 2
        bed.say(C_DETACH, Detach(1000, 1 + i))
        bed.step()
        assert len(bed.core.local._roomless) == 1
    give_back(bed, STUCK.start)
    assert bed.take(waits) == [b"x" * 1000]
    assert len(bed.core.local._roomless) == 0


def test_who_loses_all_that_waits_waits_for_no_room() -> None:
    """Its only message makes room for others', which wait."""
    bed, (loses, comes) = without_room()
    local = bed.core.local
    assert local.send(f"to.{loses}", b"x" * 1_000_000)
    others = range(STUCK.start, loses)
    for link in others:
        assert local.send(f"to.{link}", b"x" * ((WAITING_BYTES - 1_100_000) // len(others)))
    before = len(local._roomless)
    assert local.send(f"to.{comes}", b"x" * 200_000)
    assert local.waiting(f"to.{loses}") == 0
    assert len(local._roomless) == before


def test_a_message_that_is_too_long_is_refused_at_once(caplog: pytest.LogCaptureFixture) -> None:
    """It would never find room, nor would those behind it; the log says why."""
    bed = Crowded(range(STUCK.start, STUCK.start + 2))
    local = bed.core.local
    assert not local.send(f"to.{STUCK.start}", b"x" * (MESSAGE_LIMIT + 1))
    text = f"to 'to.{STUCK.start}' was dropped: it has {MESSAGE_LIMIT + 1} bytes, and {MESSAGE_LIMIT} are possible"
    assert text in caplog.text
    assert len(local) == 0
    assert not local.tell_routers(f"to.{STUCK.start}", b"x" * (MESSAGE_LIMIT + 1))
    assert local.send(f"to.{STUCK.start}", b"x" * MESSAGE_LIMIT)
    assert local.send(f"to.{STUCK.start + 1}", b"short")
    assert bed.take(STUCK.start) == [b"x" * MESSAGE_LIMIT]
    assert bed.take(STUCK.start + 1) == [b"short"]
