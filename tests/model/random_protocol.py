"""A random life of the router protocol: delays, lost messages, silent connections, restarts, and other makes' dialects.

Where `tests.model.random_network` has whole cores and wires that deliver in order and at once, this has the protocol
alone, and wires as bad as it takes. When they are good again, all tables must become what the topology says.
"""

import random
from typing import Final

from bench.network import loops, wrong
from bench.network_world import DISPATCH, OURS, SKUPPER, World

PLAIN: Final = ["M0a", "M0b", "M0c", "M0d", "Hx"]
OURS_ALONE: Final = ["M1q", "Cl.r", "Dl.r"]  # keys that skupper's dialect has no words for
DELAYS: Final = [0.001, 0.003, 0.02, 0.3]  # seconds
WAITS: Final = [0, 0.0005, 0.002, 0.01, 0.1, 0.5, 1, 3, 8]
LOSSES: Final = [0, 0, 0.1, 0.5]
LONGEST: Final = 150.0  # seconds until all tables are right, with routers that forget only after a minute
QUIET: Final = 60.0
MOST_MESSAGES: Final = 12  # of a router each second and for each router of a network at rest


class RandomProtocol:
    """What happens is a function of the seed. A broken promise raises ``AssertionError``."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)  # noqa: S311 - a schedule, no secret
        self.world = World(seed=seed, by_origin=self.chance.random() < 0.7)
        self.names = [f"R{number}" for number in range(self.chance.randint(2, 8))]
        self.steps = 0
        mixed = self.chance.random() < 0.4
        self.keys = PLAIN if mixed else PLAIN + OURS_ALONE
        for name in self.names:
            self.world.add(name, self.chance.choice([OURS, OURS, DISPATCH, SKUPPER]) if mixed else OURS)

    def live(self) -> None:
        acts = {
            self._connect: 1,
            self._flip: 4,
            self._sever: 1,
            self._listen: 8,
            self._restart: 1,
            self._wait: 10,
            self._lose: 0.5,
        }
        for _ in self.names[1:]:
            self._connect()
        for _ in range(self.chance.randint(1, 3)):
            for act in self.chance.choices(list(acts), list(acts.values()), k=self.chance.randint(10, 80)):
                act()
                self.steps += 1
            self._check()

    def _connect(self) -> None:
        one, other = self.chance.sample(self.names, 2)
        if {self.world.routers[one].kind, self.world.routers[other].kind} != {DISPATCH, SKUPPER}:
            link = self.world.connect(one, other, self.chance.choice([1, 1, 2, 5]))
            link.delay = self.chance.choice(DELAYS)

    def _flip(self) -> None:
        if self.world.links:
            link = self.chance.choice(self.world.links)
            (self.world.close if link.open else self.world.open)(link)

    def _sever(self) -> None:
        if self.world.links:
            link = self.chance.choice(self.world.links)
            link.severed = not link.severed

    def _listen(self) -> None:
        router, key = self.world.routers[self.chance.choice(self.names)], self.chance.choice(self.keys)
        if key in router.addresses and self.chance.random() < 0.7:
            router.ignore(key)
        else:
            router.listen(key, self.chance.choice([1, 2, 3]))
        if self.chance.random() < 0.7:
            router.tick()

    def _restart(self) -> None:
        self.world.routers[self.chance.choice(self.names)].restart()

    def _wait(self) -> None:
        self.world.run(self.chance.choice(WAITS))

    def _lose(self) -> None:
        self.world.loss = self.chance.choice(LOSSES)

    def _check(self) -> None:
        """Some connections stay silent, which their ends notice."""
        self.world.loss = 0.0
        for link in self.world.links:
            if self.chance.random() < 0.7:
                self.world.mend(link)
        began = self.world.now
        self.world.run(QUIET / 3)
        while (bad := wrong(self.world)) and self.world.now - began < LONGEST:
            self.world.run(QUIET / 3)
        assert not bad, bad[:4]
        assert not (circles := loops(self.world)), circles[:4]
        before = self.world.messages
        self.world.run(QUIET)
        assert self.world.messages - before < MOST_MESSAGES * QUIET * len(self.names) ** 2, "they go on talking"
