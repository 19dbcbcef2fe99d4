"""Annotations and payloads that lie, to workers of source routes, under the sanitizers."""

import subprocess
from pathlib import Path
from typing import Any

from proton import Message, symbol, ubyte

from routerd.source_routes.address import local, parse_route
from tests.model.source_routes.place import Place
from tests.model.source_routes.setup import setup_of
from tests.model.source_routes.workers import (
    Collapse,
    Discovery,
    Extend,
    Forward,
    PayloadUnwrap,
    PayloadWrap,
    Proxy,
    Static,
    Tee,
    ToMarker,
    Unwrap,
    Worker,
    Wrap,
)
from workers.source_routes.table import Sources, compiled

ROOT = Path(__file__).parents[2]
ROUNDS = 20_000

WORKERS: list[Worker] = [
    Forward(address=local("f"), trace=True),
    Static(address=local("s"), route=parse_route("s=>f")),
    Proxy(address=local("p"), inner=local("p.in"), route=parse_route("f=>q")),
    Extend(address=local("e"), route=parse_route("f=>64#x"), marker=True),
    Collapse(address=local("c"), strip=ToMarker()),
    PayloadWrap(address=local("pw"), trace=True),
    PayloadUnwrap(address=local("pu")),
    Wrap(address=local("w"), route=parse_route("f=>u"), metadata="copy"),
    Wrap(address=local("wb"), route=parse_route("ub"), form="bare"),
    Unwrap(address=local("u"), trace=True, metadata="merge"),
    Unwrap(address=local("ub"), trace=True, form="bare"),
    Tee(address=local("t"), route=parse_route("w=>t=>audit")),
    Discovery(address=local("d"), inner=local("d.in"), route=parse_route("d.in")),
]


def message(onward: list[Any], body: bytes = b"ping", **properties: Any) -> bytes:
    made = Message(body=body, inferred=True, **properties)
    made.annotations = {
        symbol("x-opt-route.onward"): onward,
        symbol("x-opt-route.return"): ["me", [ubyte(64), b"x"], "_scope", "z9"],
        symbol("x-opt-route.hops"): ubyte(1),
        symbol("x-opt-route.meta"): {symbol("trace"): ["z"], symbol("k"): b"v", symbol("n"): [1, [True]]},
    }
    return bytes(made.encode())


BARE = bytes.fromhex("01010002423201000241310470696e67")
MESSAGES = [
    message(["f", "s", "q"]),
    message(["p", "p.in", "c", "e", "q"], subject="s"),
    message(["w", "u", "w", "wb", "end"]),
    message(["pw", "w", "pu", "end"]),
    message(["t", "t", "f", "q"]),
    message(["d", "q"], properties={"a": 1}),
    message(["ub"], BARE),
    message(["u"], b"\x00Sr\xc1\x1c\x02\xa3\x12x-opt-route.onward\xc0\x04\x01\xa1\x01q" + b"\x00Su\xa0\x01x"),
    message(["pu", "q"], b"\x01\x01k\x01v\x04ping"),
    bytes(Message(address="route:f=>64#x=>q", reply_to="route:me=>you", body=b"x" * 900).encode()),
]


def test_nothing_that_is_said_does_harm(tmp_path: Path) -> None:
    """Every worker, messages and tables changed at random, each in memory of its own length."""
    program = tmp_path / "fuzz"
    command = ["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wextra", "-Werror"]
    command += ["-Wno-unused-function", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    command += [f"-I{ROOT}"]
    command += [str(Path(__file__).with_name("source_routes.c")), "-o", str(program)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    setup = setup_of(Place("", {address: one for one in WORKERS for address in one.addresses}))
    table = tmp_path / "table"
    table.write_bytes(compiled(setup, Sources(setup.workers)))
    files = [tmp_path / f"message{n}" for n in range(len(MESSAGES))]
    for file, octets in zip(files, MESSAGES, strict=True):
        file.write_bytes(octets)
    done = subprocess.run([program, table, str(ROUNDS), *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
