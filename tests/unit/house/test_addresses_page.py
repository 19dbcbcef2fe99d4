"""What the page on addresses says of names and of the entity that wins is what the core does."""

import re
from pathlib import Path

from core.addresses.addresses import Identity, address_key, tokens
from shm.contract.patterns import Patterns

PAGE = (Path(__file__).parents[3] / "docs" / "addresses.md").read_text()


def section(title: str) -> str:
    """The text below a heading."""
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_the_entity_that_wins() -> None:
    """Each row of the table, with the entities of the sentence before it."""
    sentence, _, table = section("Which entity wins").partition("With the entities ")[2].partition("\n|")
    entities: Patterns[str] = Patterns()
    for kind, text in re.findall(r"`(prefix|pattern): ([^`]+)`", sentence):
        pattern = f"{text}.#" if kind == "prefix" else text
        entities.insert(tokens(pattern), pattern)
    rows = re.findall(r"(?m)^\| `([^`]+)` \| (none|`[^`]+`) \|", table)
    assert len(rows) == 6
    for address, winner in rows:
        assert (entities.find(tokens(address)) or "none") == winner.strip("`"), address


def test_names_that_are_one_address() -> None:
    """And the one that is another."""
    same, _, rest = section("How a name is read").partition("tokens of a name. ")[2].partition(" are the address ")
    names = re.findall(r"`([^`]+)`", same)
    assert len(names) == 5
    (address, other) = re.findall(r"`([^`]+)`", rest)[:2]
    me = Identity("me")
    assert {address_key(name, me) for name in names} == {address_key(address, me)}
    assert address_key(other, me) != address_key(address, me)
    assert tokens(other) == tokens(address)
