"""Numbers that stand in a C header and in Python: both must mean the same."""

import re
from pathlib import Path

import pytest

from bench import contract
from shm.contract import payloads

ROOT = Path(__file__).parents[3]


def enum(header: str, name: str) -> dict[str, int]:
    """The constants of an enum that gives each its number."""
    body = re.search(rf"enum {name} \{{(.*?)\}};", (ROOT / header).read_text(), re.DOTALL)
    assert body is not None
    text = re.sub(r"/\*.*?\*/", "", body[1], flags=re.DOTALL)
    return {word: int(number) for word, number in re.findall(r"(\w+) = (\d+)", text)}


@pytest.mark.parametrize("name", [n for n in vars(payloads) if n.startswith("C_")])
def test_control_kinds_are_those_of_the_records(name: str) -> None:
    """What a control record's ``state`` means is the same on both sides."""
    assert getattr(payloads, name) == getattr(contract, name)


def test_every_control_kind_has_a_payload() -> None:
    """No kind of the record's header is unknown to the structures."""
    assert set(enum("shm/memory/record.h", "routerd_control_kind").values()) == set(payloads.PAYLOADS)
