"""What becomes of metadata at each worker, and what its keys cost."""

from collections.abc import Iterable

import pytest

from tests.model.source_routes import bare
from tests.model.source_routes.place import Classes, MetaClass, Rules
from tests.model.source_routes.rules import step
from tests.model.source_routes.workers import Forward, Unwrap, Wrap
from tests.support.values.source_routing import a, m, r

F = a("F")

CLASSES = Classes(
    {"trace": MetaClass.APPEND, "here": MetaClass.LOCAL, "secret": MetaClass.SEALED, "tag": MetaClass.CARRY}
)
META = {"trace": ("A",), "here": 1, "secret": "s", "tag": "t", "free": b"f"}


@pytest.mark.parametrize(
    ("option", "outside"),
    [
        ("hide", {"trace": ("A", "F")}),
        ("copy", {"trace": ("A", "F"), "tag": "t", "free": b"f"}),
        (("tag", "secret", "here"), {"trace": ("A", "F"), "tag": "t"}),
    ],
)
def test_what_a_wrapper_shows_of_metadata(option: object, outside: dict[str, object]) -> None:
    rules = Rules(classes=CLASSES)
    message = m("F X", "A")._replace(meta=META)
    (result,) = step(Wrap(address=F, route=r("G U"), metadata=option), message, rules=rules)
    assert result.meta == outside
    (result,) = step(Forward(address=a("G")), result._replace(meta={**result.meta, "new": 1}), rules=rules)
    (restored,) = step(Unwrap(address=a("U")), result, rules=rules)
    kept = {"trace": ("A", "F", "G", "U"), "secret": "s", "tag": "t", "free": b"f"}
    assert restored.meta == kept
    (merged,) = step(Unwrap(address=a("U"), metadata="merge"), result, rules=rules)
    assert merged.meta == {**kept, "new": 1}


def test_metadata_within_a_scope_and_over_its_border() -> None:
    rules = Rules(classes=CLASSES)
    message = m("F X", "A")._replace(meta=META)
    (result,) = step(Forward(address=F), message, rules=rules)
    assert result.meta == {**META, "trace": ("A", "F")}
    (result,) = step(Forward(address=F, crosses=True), message, rules=rules)
    assert result.meta == {key: one for key, one in {**META, "trace": ("A", "F")}.items() if key != "here"}


def overhead(keys: Iterable[str]) -> int:
    """Octets that the keys of a BARE `map[string]data` cost, with the map itself.

    With N <= 127 keys of at most 127 octets each, L in all, this is L + N + 1.
    """
    lengths = [len(key.encode()) for key in keys]
    return len(bare.uint(len(lengths))) + sum(lengths) + sum(len(bare.uint(length)) for length in lengths)


@pytest.mark.parametrize(
    ("keys", "more"),
    [
        ([], 0),
        (["a"], 0),
        (["x" * 127] * 127, 0),
        (["k"] * 128, 1),
        (["k"] * 130, 1),
        (["k" * 128], 1),
        (["k" * 128] * 3, 3),
        (["k" * 16_384], 2),
        (["k"] * 16_384, 2),
        (["é" * 64], 1),
    ],
)
def test_the_overhead_of_keys(keys: list[str], more: int) -> None:
    """L + N + 1, up to 127 keys of up to 127 octets each; octets, not characters."""
    octets = sum(len(key.encode()) for key in keys)
    assert overhead(keys) == octets + len(keys) + 1 + more


@pytest.mark.parametrize("count", [0, 1, 2, 127, 128])
@pytest.mark.parametrize("length", [4, 127, 128])
def test_the_overhead_is_measured(count: int, length: int) -> None:
    keys = [f"{n:0{length}}" for n in range(count)]
    values = {key: b"v" * n for n, key in enumerate(keys)}
    of_values = sum(len(bare.data(value)) for value in values.values())
    assert len(bare.mapping(values)) == overhead(keys) + of_values


def test_against_wrapping_the_payload_a_map_saves_a_length() -> None:
    """Values by position in a payload cost its length, too: 15 octets more, not 16, for keys of 5 and 8."""
    for size, saved in ((5, 1), (200, 2), (17_000, 3)):
        body = bare.data(b"v" * size)
        wrapped_payload = bare.data(bare.data(b"") + bare.data(b"") + body)
        generic = bare.mapping({"k" * 5: b"", "k" * 8: b""}) + body
        assert len(generic) - len(wrapped_payload) == 16 - saved


def test_against_a_field_of_its_own_a_key_costs_its_name_and_a_length() -> None:
    """A number in front of a message by position, and the same under a key beside the message."""
    message = bare.data(bytes(16))
    assert len(bare.uint(1) + message) == 18
    assert len(bare.mapping({"index": bare.uint(1)}) + message) == 18 + overhead(["index"]) + 1
