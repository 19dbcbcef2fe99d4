"""Numbers that stand in a C header and in Python: both must mean the same."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench import core_alone
from core.addresses.addresses import TREATMENTS
from core.exchanges import keys
from core.management import allocator
from routerd.config.entities.route_tables import LONGEST_ADDRESS
from routerd.config.rules.relations import MAX_ID_BYTES
from routerd.config.rules.route_workers import MOST_SOURCES
from shm.contract import payloads
from shm.contract.flow_log.schema import ADDRESS_CLASSES, KINDS, LINK_KINDS, OUTCOMES, ROUTE_STATES
from shm.contract.source_routes import KINDS as ROUTE_KINDS
from shm.contract.source_routes import REASONS
from shm.contract.tables import connections
from workers.control import opening

ROOT = Path(__file__).parents[3]


def source(file: str) -> str:
    return re.sub(r"/\*.*?\*/", "", (ROOT / file).read_text(), flags=re.DOTALL)


def enum(header: str, name: str) -> dict[str, int]:
    """The constants of an enum, which gives each its number or none."""
    body = re.search(rf"enum {name} \{{(.*?)\}};", source(header), re.DOTALL)
    assert body is not None
    words = [one.partition("=") for one in body[1].split(",") if one.strip()]
    return {word.strip(): int(number or place) for place, (word, _, number) in enumerate(words)}


def define(header: str, name: str) -> int:
    """The number of a macro."""
    found = re.search(rf"^#define {name} +(\S.*?) *$", source(header), re.MULTILINE)
    assert found is not None
    number = 1
    for factor in re.sub(r"[()]", "", found[1]).split("*"):
        base, _, shift = re.sub(r"(?<=\d)u(ll)?\b", "", factor).partition("<<")
        number *= int(base) << int(shift or 0)
    return number


def test_control_kinds_are_those_of_the_records() -> None:
    """A control record's ``state`` means the same on both sides: each payload's docstring begins with its kind."""
    kinds = enum("shm/memory/record.h", "routerd_control_kind")
    assert kinds == {str(one.__doc__).partition(",")[0]: kind for kind, one in payloads.PAYLOADS.items()}


@pytest.mark.parametrize(
    ("header", "name", "prefix", "names"),
    [
        ("core/forwarder/tables/tables.h", "core_treatment", "T", TREATMENTS),
        ("shm/memory/telemetry.h", "telemetry_outcome", "FLOW", OUTCOMES),
        ("shm/memory/telemetry.h", "telemetry_link_kind", "FLOW", LINK_KINDS),
        ("shm/memory/telemetry.h", "telemetry_class", "FLOW", (*ADDRESS_CLASSES, "no_class")),
        ("workers/source_routes/source_routes.h", "route_kind", "ROUTE", (*ROUTE_KINDS, "kinds")),
    ],
)
def test_names_are_in_the_order_of_their_numbers(header: str, name: str, prefix: str, names: Sequence[str]) -> None:
    """Python has the names as a sequence, C each with its number."""
    expected = [f"{prefix}_{one}".upper().replace("-", "_") for one in names]
    assert enum(header, name) == {word: number for number, word in enumerate(expected)}


def test_kinds_of_rows_are_those_of_the_flow_log() -> None:
    """The router writes no row of a flow, so C has no number for it."""
    kinds = enum("shm/memory/telemetry.h", "telemetry_kind")
    assert kinds == {f"FLOW_{KINDS[number]}".upper(): number for number in (0, 2)}


def test_each_reason_of_a_refusal_has_a_name() -> None:
    """The names are other words; what they mean is tried where each refusal is."""
    assert enum("workers/source_routes/source_routes.h", "route_reason")["ROUTE_REASONS"] == len(REASONS)


def test_states_of_return_routes_are_read_as_they_are_written() -> None:
    """The worker's number is the place of the name."""
    states = re.search(r"states\[\] = \{(.*?)\}", source("workers/amqp/flow_extract.c"))
    assert states is not None
    assert tuple(re.findall(r'"(\w+)"', states[1])) == ROUTE_STATES


@pytest.mark.parametrize(
    ("header", "name", "numbers"),
    [
        (
            "core/forwarder/delivery/exchange.h",
            "exchange_token",
            {"TOKEN_ITSELF": keys.ITSELF, "TOKEN_ONE": keys.ONE, "TOKEN_ANY": keys.ANY},
        ),
        (
            "shm/memory/content.h",
            "content_annotations",
            {
                "ANNOTATIONS_NONE": opening.NONE,
                "ANNOTATIONS_MAP": opening.MAP,
                "ANNOTATIONS_SECTION": opening.SECTION,
                "ANNOTATIONS_SKUPPER": opening.SKUPPER,
            },
        ),
        ("shm/memory/record.h", "deliver_key", {"KEY_NONE": 0, "KEY_FOUND": core_alone.KEY_FOUND}),
    ],
)
def test_constants_of_an_enum_have_the_same_numbers(header: str, name: str, numbers: dict[str, int]) -> None:
    """What one side writes into a record, the other reads."""
    assert enum(header, name) == numbers


def test_sizes_of_blocks_are_those_of_the_arena() -> None:
    """Management shows them."""
    sizes = [define("shm/memory/arena.h", f"ARENA_{name}_BYTES") for name in ("SMALL", "LARGE")]
    assert sizes == [allocator.SMALL_BYTES, allocator.LARGE_BYTES]


def test_a_worker_has_room_for_the_addresses_of_a_tables_connections() -> None:
    """Behind the longest address of a table stand the longest router id and the digits of a connection's number."""
    longest = f"{'t' * LONGEST_ADDRESS}/{connections('i' * MAX_ID_BYTES)}"
    digits = define("workers/rmr/rmr.h", "RMR_NUMBER")
    assert len(longest) + digits + 2 == define("workers/rmr/wire.h", "RMR_ADDRESS_MAX")


def test_a_source_has_a_bit() -> None:
    """The configuration may name as many sources as the table of route workers has bits for."""
    assert define("workers/source_routes/source_routes.h", "ROUTE_SOURCE_WORDS") * 64 == MOST_SOURCES


def test_the_core_reads_as_much_as_a_worker_says_and_has_room_for_it() -> None:
    """The two ends of the ring have the same limit."""
    longest = define("core/forwarder/tables/access.h", "CONTENT_CONTROL_MAX")
    assert longest == payloads.LONGEST
    assert longest < define("shm/memory/layout.h", "LAYOUT_CORE_ARENA_BYTES")
