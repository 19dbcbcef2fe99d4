"""A router with a route table for each reply mode, and two RMR applications."""

import time

from tests.support.clients.rmr import Application, Link
from tests.support.clients.rmr_frames import Frame
from tests.support.running import RunningRouter, address_of

MODES = ("proxied", "transparent", "sameConnection")
LISTENERS = (*MODES, "split", "split")  # their tables, in order; the last one is for replies


class Stage:
    """A router with a table for each reply mode, and two applications: A sends to it, B is an endpoint."""

    def __init__(self, router: RunningRouter, a: Application, b: Application) -> None:
        self.router, self.a, self.b = router, a, b


class Pair:
    """A's connection to the router, and the router's to B."""

    def __init__(self, stage: Stage, mode: str) -> None:
        self.mode = mode
        self.stage = stage
        self.address = address_of(stage.router.urls[1 + LISTENERS.index(mode)])
        self.name = "{}:{}".format(*self.address)
        self.a = stage.a.connect(self.address)

    def send(self, kind: int, payload: bytes = b"x", **fields: object) -> Frame:
        stage = self.stage
        return stage.a.send_on(self.a, kind, payload, **fields)

    def reaches(self) -> bool:
        """Whether B is there by now."""
        text = f"probe {self.mode}".encode()
        self.send(1000, text)
        time.sleep(0.05)
        self.stage.b.look()
        return any(frame.payload == text for link in self.stage.b.links for frame in link.inbox)

    def arrives(self, kind: int, payload: bytes) -> tuple[Link, Frame]:
        """At B, on whichever of the router's connections to it."""
        return self.stage.b.take(lambda frame: frame.message_type == kind and frame.payload == payload)


def changed(frame: Frame, **fields: object) -> Frame:
    return Frame(**{name: getattr(frame, name) for name in frame.__struct_fields__} | fields)  # type: ignore[arg-type]  # fields of any type
