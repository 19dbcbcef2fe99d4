"""Workers that have outlived a core: none passes a message on before the next one knows the links of all."""

from bench.contract import C_PRESENTED
from core.process.recovery import PATIENCE_NS
from core.process.router import Core
from shm.contract.control import WorkerGone
from shm.contract.payloads import Presented
from tests.model.memory import Memory
from tests.model.survivor import come_back, leave
from tests.model.tally import Ledger, Message
from tests.model.worker import Worker
from tests.model.world import setup


class Site:
    """A sender at worker 0, a receiver at worker 1, and a core that comes after another one."""

    def __init__(self) -> None:
        self.memory, self.ledger = Memory(2, 16), Ledger()
        self.core, self.now = Core(setup(2), self.memory, b"1"), 1
        self.workers = [Worker(i, 1, self.memory, self.ledger, []) for i in range(2)]
        for worker, outgoing in zip(self.workers, (False, True), strict=True):
            worker.attach(worker.connect(), outgoing, "b.1", 5, False)
            worker.publish()
        self.there = list(self.workers)
        self.turn()
        for worker in self.workers:
            leave(worker)
        self.there.clear()
        self.memory.reset()
        self.core = Core(setup(2, [0, 1]), self.memory, b"2")

    def turn(self) -> None:
        """The core hears what was published, the workers what it says."""
        self.now += 1
        self.core.step(self.now)
        self.core.tick(self.now)
        self.core.forwarder.publish()
        for worker in self.there:
            worker.read(1000)

    def present(self, worker: Worker) -> None:
        """It tells of its links."""
        if worker not in self.there:
            come_back(worker)
            self.there.append(worker)
        else:
            worker.control(C_PRESENTED, Presented())
        worker.publish()
        self.turn()

    @property
    def resting(self) -> list[bool]:
        return [worker.resting for worker in self.workers]

    def send(self) -> Message:
        """A message from the sender."""
        (link,) = self.workers[0].links.values()
        assert link.credit
        message = self.ledger.new("b.1", False, False, (0, 1))
        self.workers[0].send(link, message, False)
        self.workers[0].publish()
        self.turn()
        return message


def test_nobody_goes_on_before_all_have_presented() -> None:
    """So a message that comes next finds its receiver, whoever was first to present."""
    for first in (0, 1):
        site = Site()
        site.present(site.workers[first])
        assert site.resting == [True, True]
        site.present(site.workers[1 - first])
        assert site.resting == [False, False]
        assert site.send().copies == 1


def test_one_that_dies_is_not_waited_for() -> None:
    """Its successor begins anew."""
    site = Site()
    site.present(site.workers[0])
    site.core.worker_gone(WorkerGone(1, 1), site.now)
    site.turn()
    assert site.resting == [False, True]


def test_one_that_never_presents_is_not_waited_for_for_ever() -> None:
    """The others go on after a time; so does it, whenever it comes."""
    site = Site()
    site.present(site.workers[0])
    site.now += PATIENCE_NS - 10
    site.turn()
    assert site.resting == [True, True]
    site.now += 10
    site.turn()
    assert site.resting == [False, True]
    site.present(site.workers[1])
    assert site.resting == [False, False]


def test_one_that_presents_twice_is_told_twice() -> None:
    """Nobody waits, and nothing is kept: a word that makes no difference."""
    site = Site()
    for worker in [*site.workers, *site.workers]:
        site.present(worker)
    assert site.resting == [False, False]
    assert site.send().copies == 1
