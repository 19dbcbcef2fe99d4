"""Numbers that stand in a C header and in Python: both must mean the same."""

import re
from pathlib import Path

from shm.contract import payloads

ROOT = Path(__file__).parents[3]


def enum(header: str, name: str) -> dict[str, int]:
    """The constants of an enum that gives each its number."""
    body = re.search(rf"enum {name} \{{(.*?)\}};", (ROOT / header).read_text(), re.DOTALL)
    assert body is not None
    text = re.sub(r"/\*.*?\*/", "", body[1], flags=re.DOTALL)
    return {word: int(number) for word, number in re.findall(r"(\w+) = (\d+)", text)}


def test_control_kinds_are_those_of_the_records() -> None:
    """A control record's ``state`` means the same on both sides: each payload's docstring begins with its kind."""
    kinds = enum("shm/memory/record.h", "routerd_control_kind")
    assert kinds == {str(one.__doc__).partition(",")[0]: kind for kind, one in payloads.PAYLOADS.items()}
