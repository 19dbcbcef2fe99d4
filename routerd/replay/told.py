"""Steps of a recording as text, in AMQP's words."""

import struct
from typing import Any, Final

import msgspec

from core.forwarder.recorded import CALLS
from routerd.replay.recording import Read, Recording, Step
from shm.contract.text import printable
from shm.memory import flight

_RECORD: Final = struct.Struct("=BBBBIIIQQIIQQQ")
_NIL: Final = 0xFFFFFFFF
SHOWN: Final = 4096  # octets of a text: longer ones are parts of route tables
_ACTIONS: Final = {
    1: "TRANSFER", 2: "more", 3: "DISPOSITION", 4: "sent", 5: "read", 6: "FLOW drain", 7: "FLOW drained", 8: "free",
    9: "FLOW credit", 13: "waits", 16: "control",
}  # fmt: skip
_WORK: Final = {
    1: "TRANSFER", 2: "more", 3: "DISPOSITION", 4: "release", 5: "consumed", 6: "FLOW credit", 7: "FLOW drain",
    8: "FLOW drained", 9: "known as", 16: "control",
}  # fmt: skip
_STATES: Final = {
    0x23: "received", 0x24: "accepted", 0x25: "rejected", 0x26: "released", 0x27: "modified", 0x33: "declared",
    0x34: "transactional",
}  # fmt: skip
_KINDS: Final = {
    1: "open", 2: "close", 3: "ATTACH", 4: "ATTACH", 5: "DETACH", 6: "close", 7: "open link", 8: "refused",
    9: "poll", 10: "seen", 11: "denied", 12: "trace", 13: "connector", 14: "cost", 15: "listeners", 16: "endpoint",
    24: "route reach", 25: "route counts", 29: "presented",
}  # fmt: skip
_FLAGS: Final = ((1, "settled"), (2, "complete"), (4, "aborted"), (8, "incoming"), (16, "gives the block back"))
_SHARED_FLAGS: Final = {(True, 32): "dropped or stalled", (True, 64): "unsent, slow or brief"}


def record(octets: bytes, action: bool) -> str:
    """Return an action or a record of work as text."""
    kind, flags, priority, arena, link, generation, block, delivery, peer, state, credit, length, _, extra = (
        _RECORD.unpack(octets)
    )
    words = [(_ACTIONS if action else _WORK).get(kind, f"unknown type {kind}")]
    if link != _NIL:
        words.append(f"link {link}.{generation}")
    if kind == 16:
        words.append(_KINDS.get(state, f"kind {state}"))
    elif state:
        words.append(_STATES.get(state, f"state {state:#x}"))
    words += [name for bit, name in _FLAGS if flags & bit]
    words += [name for (of, bit), name in _SHARED_FLAGS.items() if of == action and flags & bit]
    if delivery:
        words.append(f"delivery {delivery & _NIL}.{delivery >> 32}")
    if peer:
        words.append(f"as {peer & _NIL}.{peer >> 32}")
    if block != _NIL:
        words.append(f"block {arena}:{block}")
    for name, value in (("octets", length), ("credit", credit), ("priority", priority), ("extra", extra)):
        if value:
            words.append(f"{name} {value}")
    return " ".join(words)


def _call(step: Step) -> str:
    name = CALLS[step.what] if step.what < len(CALLS) else f"unknown call {step.what}"
    try:
        arguments = msgspec.msgpack.decode(step.octets, type=list[Any])
        return f"{name} {', '.join(_argument(one) for one in arguments)}".rstrip()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return f"{name}: its arguments make no sense"


def _argument(value: Any) -> str:
    if isinstance(value, bytes) and len(value) > SHOWN:
        return f"{len(value)} octets"
    if isinstance(value, bytes):
        return ascii(value.decode("utf-8", "replace"))
    if isinstance(value, dict):
        return " ".join(f"{printable(f'{key}')}={value[key]!a}" for key in value if value[key] not in (None, False, 0))
    return ascii(value)


def _reads(reads: tuple[Read, ...]) -> str:
    texts = [f"to {one.hashed:016x}" for one in reads if one.kind == flight.TEXT and one.length]
    return f"  ({', '.join(texts)})" if texts else ""


def step_told(recording: Recording, step: Step) -> str:
    """Return a step as a line of text: its number, its time since the core began in seconds, who, and what."""
    when = f"{step.number:>8} {max(0, step.now - recording.about.began) / 1e9:12.6f}  "
    if step.kind == "action":
        return f"{when}worker {step.worker} > {record(step.octets, True)}{_reads(step.reads)}"
    if step.kind == "work":
        return f"{when}worker {step.worker} < {record(step.octets, False)}"
    if step.kind == "call":
        return f"{when}core       {_call(step)}"
    if step.kind == "forgotten":
        return f"{when}core       forgets {step.hashed:016x}"
    return f"{when}core       {step.kind}"
