"""A message with router annotations, in plain Python: written in each form, and read back."""

from dataclasses import dataclass, field
from typing import Any

from proton import Data, Described, int32, symbol, ubyte, uint, ulong

from tests.support.clients.wire import encode
from tests.support.native.hop import MAP, SECTION, SKUPPER

DESCRIPTORS = {SECTION: 0xFFFFFFFF00002000, SKUPPER: 0x534B50522D2D5241}
HEADER, DELIVERY, ANNOTATIONS = 0x70, 0x71, 0x72
BODY = bytes.fromhex("005377a10568656c6c6f")  # amqp-value "hello"
KEYS = ("phase", "stream", "to", "ingress", "trace")


def octets(*parts: str) -> bytes:
    return bytes.fromhex("".join(parts))


@dataclass
class Story:
    """What a message says, and what stands around it."""

    before: bytes = b""  # header and delivery-annotations
    user: list[tuple[Any, Any]] = field(default_factory=list)
    has_map: bool = False
    to: str | None = None
    ingress: str | None = None
    trace: list[str] = field(default_factory=list)
    stream: bool = False
    rest: bytes = BODY

    def map_of(self, routers: bool, phase: int32 | None = None) -> dict[Any, Any]:
        values = dict(self.user)
        if routers:
            stream = int32(1) if self.stream else None
            said = (phase, stream, self.to, self.ingress, self.trace or None)
            pairs = zip(KEYS, said, strict=True)
            values |= {symbol(f"x-opt-qd.{key}"): value for key, value in pairs if value is not None}
        return values

    def encoded(self, form: int) -> bytes:
        """With the router annotations in a form."""
        values = self.map_of(form == MAP)
        annotations = encode(Described(ulong(ANNOTATIONS), values)) if values or self.has_map else b""
        section = b""
        if form in DESCRIPTORS:
            flags = ubyte(self.stream) if form == SECTION else uint(self.stream)
            ingress = self.ingress if form == SKUPPER else self.ingress or ""
            section = encode(Described(ulong(DESCRIPTORS[form]), [flags, self.to, ingress, self.trace]))
        return section + self.before + annotations + self.rest


def read(message: bytes, form: int) -> tuple[Story, int]:
    """A message that a router of ours has written, and its phase."""
    story, phase = Story(rest=b""), 0
    at = 0
    while at < len(message):
        data = Data()
        size = data.decode(message[at : at + 1 << 20])
        data.rewind()
        data.next()
        value = data.get_py_described()
        code = int(value.descriptor)
        if code in DESCRIPTORS.values():
            assert at == 0
            assert code == DESCRIPTORS[form]
            flags, to, ingress, trace, *more = value.value
            phase = int(str(more[0]).removeprefix("phase=")) if more else 0
            assert type(flags) is (ubyte if form == SECTION else uint)
            story.stream, story.to, story.ingress, story.trace = bool(flags), to, ingress or None, list(trace)
        elif code in (HEADER, DELIVERY):
            story.before += message[at : at + size]
        elif code == ANNOTATIONS:
            story.has_map, routers = True, False
            for key, one in value.value.items():
                name = str(key).removeprefix("x-opt-qd.")
                if not isinstance(key, symbol) or name == key:
                    assert not routers, "the user's come first"
                    story.user.append((key, bytes(one) if isinstance(one, memoryview) else one))
                    continue
                routers = True
                if name == "phase":
                    phase = int(one)
                elif name == "stream":
                    story.stream = True
                else:
                    setattr(story, name, one)
        else:
            story.rest = message[at:]
            break
        at += size
    return story, phase
