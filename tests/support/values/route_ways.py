"""The examples of the specification as whole ways through workers, with the case in front of addresses."""

import json
from pathlib import Path
from typing import Any

from proton import Message

from tests.support.clients.routed_messages import message, routes

VECTORS: dict[str, Any] = json.loads(Path(__file__).with_name("source_route_vectors.json").read_text())
CASES = {case["case"].split()[0]: case["steps"] for case in VECTORS["route_cases"]}

# The workers of each case; its addresses have its name in front.
WORKERS = {
    "S1": ["A1 forward trace=yes", "B1 forward trace=yes", "C2 forward trace=yes"],
    "S1n": ["A1 forward", "B1 forward", "C2 forward"],
    "S2": [
        "B1 wrap route=X3=>U2 format=bare", "X3 forward trace=yes", "U2 unwrap trace=yes format=bare",
        "C2 forward trace=yes",
    ],
    "S3": ["B1 extend route=E3=>F4", "E3 forward", "F4 forward", "C2 forward trace=yes"],
    "S3t": [
        "B1 extend route=E3=>F4", "E3 forward trace=yes", "F4 forward trace=yes", "C2 collapse stripCount=2",
    ],
    "S3s": [
        "B1 extend route=E3=>F4", "E3 forward trace=yes", "F4 forward trace=yes",
        "C2 collapse keepScopes=1,2",
    ],
    "D0": ["T13 forward", "F3 forward", "T24 forward", "F4 forward"],
    "D1": [
        "D1 discovery route=T13=>F3 mode=strip stripCount=0 inner=D1i", "T13 forward", "F3 static route=D2i",
        "D2 discovery route=T24=>F4 mode=strip stripCount=0 inner=D2i", "T24 forward", "F4 static route=D1i",
    ],
    "D2": [
        "D1 discovery route=T13=>F3 mode=strip stripCount=2 inner=D1i", "T13 forward trace=yes traceAs=T23",
        "F3 static route=F3t=>D2i", "F3t forward trace=yes traceAs=F3",
        "D2 discovery route=T24=>F4 mode=strip stripCount=2 inner=D2i", "T24 forward trace=yes traceAs=T14",
        "F4 static route=F4t=>D1i", "F4t forward trace=yes traceAs=F4",
    ],
    "D3": [
        "D1 discovery route=T13=>F3 inner=D1i", "T13 forward trace=yes traceAs=T23", "F3 static route=D2i",
        "D2 discovery route=T24=>F4 inner=D2i", "T24 forward trace=yes traceAs=T14", "F4 static route=D1i",
    ],
    "W1": ["F forward"],
    "W2": ["F forward trace=yes"],
    "W4": ["F static route=R=>Q"],
    "W7": ["C1 wrap route=C2i format=bare", "C2i unwrap trace=yes traceAs=C2 format=bare"],
}  # fmt: skip


def named(case: str, names: str) -> str:
    return "=>".join(f"{case}.{name}" for name in names.split("=>"))


def side(name: str) -> str:
    """Of two routers, the one that an address of the examples is at: by its scope."""
    digits = name.rpartition(".")[2].rstrip("it")
    return "one" if digits[-1] in "13" or digits in ("S", "A") else "two"


def section(case: str, text: str, allow: str = "") -> str:
    """A routeWorker section from `ADDRESS KIND attribute=value …`."""
    address, kind, *rest = text.split()
    if allow:
        rest += [f"allow={allow}", *([f"innerAllow={allow}"] if "inner=" in text else [])]
    lines = [f"address: {case}.{address}", f"kind: {kind}"]
    for one in rest:
        key, _, value = one.partition("=")
        lines.append(f"{key}: {named(case, value) if key in ('route', 'inner', 'traceAs') else value}")
    return "routeWorker {\n" + "\n".join(lines) + "\n}\n"


# Case, first row and last row of a way through all workers between, and where the last one arrives.
PATHS = [
    ("S1", 0, 3, "S1"), ("S1", 4, 7, "S1"), ("S1n", 0, 3, "S1n"), ("S2", 0, 4, "S2"), ("S3", 0, 3, "S3"),
    ("S3", 0, 5, "S3t"), ("S3", 0, 6, "S3s"), ("D0", 0, 2, "D0"), ("D1", 0, 4, "D1"), ("D1", 5, 8, "D1"),
    ("D2", 0, 3, "D2"), ("D3", 0, 3, "D3"), ("D3", 4, 7, "D3"), ("W1", 0, 1, "W1"), ("W2", 0, 1, "W2"),
    ("W4", 0, 1, "W4"), ("W7", 0, 2, "W7"),
]  # fmt: skip


def sent(case: str, row: int, where: str) -> Message:
    """The message of a row."""
    given = CASES[case][row]
    onward, back = ([f"{where}.{name}" for name in given[key]] for key in ("onward", "return"))
    made = message(onward, back)
    made.body = bytes.fromhex(given["payload_hex"])
    return made


def told(arrived: Message) -> tuple[tuple[list[str], list[str]], bytes]:
    """The routes and the payload, to be compared."""
    return routes(arrived), bytes(arrived.body)
