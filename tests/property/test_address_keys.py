"""Spellings of addresses, and which configured rule they get, against a plain model."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.addresses.addresses import Identity, Rules, address_key
from shm.contract.control import AddressSetup
from shm.contract.spelling import strip_spelling

ME = Identity("me")
TOKENS = st.sampled_from(["a", "b", "c", "*", "#"])
PLAIN = st.lists(st.sampled_from(["a", "b", "c", ""]), min_size=1, max_size=5)
SEPARATOR = st.sampled_from([".", "/"])


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("orders", "M0orders"),
        ("/orders", "M0orders"),
        ("amqp:/orders", "M0orders"),
        ("amqp://host:5672/orders", "M0orders"),
        ("orders.", "M0orders"),
        ("orders/", "M0orders"),
        ("orders..", "M0orders."),
        ("//orders", "M0/orders"),
        ("amqp://host", "M0"),
        ("", "M0"),
        ("_local/x", "Lx"),
        ("_local/agent", "L$management"),
        ("amqp:/_local/agent", "L$management"),
        ("_local", "M0_local"),
        ("agent", "M0agent"),
        ("_topo/0/me/agent", "L$management"),
        ("_topo/all/me/agent", "L$management"),
        ("_topo/0/other/agent", "Rother"),
        ("_topo/0/all/agent", "Tagent"),
        ("_topo/all/all/agent", "Tagent"),
        ("_topo/7/me/agent", "A7"),
        ("_topo/0/me", "M0_topo/0/me"),
        ("_topo", "M0_topo"),
        ("_edge/me/agent", "L$management"),
        ("_edge/e1/agent", "He1"),
        ("amqp:/_topo/0/me/temp.Xyz", "Ltemp.Xyz"),
        ("amqp:/_$temp.Xyz", "M0_$temp.Xyz"),
        ("$management", "M0$management"),
        ("_localx/y", "M0_localx/y"),
    ],
)
def test_key(text: str, key: str) -> None:
    """Each spelling means the key that qdrouterd's tables would have for it; `agent` is the agent."""
    assert address_key(text, ME) == key


@given(st.text(alphabet="ab./", min_size=1).filter(lambda text: text[0] != "/" and text[-1] not in "./"))
def test_spellings_agree(text: str) -> None:
    """Scheme, authority, leading slash and one trailing separator do not change what is meant."""
    spelled = [text, f"/{text}", f"amqp:/{text}", f"amqp://h/{text}", f"{text}.", f"amqp:/{text}/"]
    assert {strip_spelling(spelling) for spelling in spelled} == {text}


def model_matches(pattern: list[str], tokens: list[str]) -> bool:
    """By a regular expression over the tokens."""
    parts = {"*": r"<[^<>]*>", "#": r"(?:<[^<>]*>)*"}
    expression = "".join(parts.get(token, f"<{token}>") for token in pattern)
    return re.fullmatch(expression, "".join(f"<{token}>" for token in tokens)) is not None


def rank(pattern: list[str], tokens: list[str]) -> list[int] | None:
    """How specific the best way is in which a pattern takes tokens: smaller is better, None is not at all.

    Token by token: itself (1) before ``*`` (2) before ``#`` (3).
    """
    if not pattern:
        return [0] if not tokens else None
    head, rest = pattern[0], pattern[1:]
    paths: list[list[int]] = []
    if head == "#":
        paths = [[3, *way] for n in range(len(tokens) + 1) if (way := rank(rest, tokens[n:])) is not None]
        return paths[0] if paths else None
    if tokens and head in ("*", tokens[0]) and (way := rank(rest, tokens[1:])) is not None:
        return [2 if head == "*" else 1, *way]
    return None


@given(st.lists(st.lists(TOKENS, min_size=1, max_size=4), min_size=1, max_size=5, unique_by=tuple), PLAIN, SEPARATOR)
def test_most_specific_rule(patterns: list[list[str]], tokens: list[str], separator: str) -> None:
    """Among the matching patterns the most specific one wins; without one the default.

    What is more specific behind a ``#`` in the middle is not defined: there any match will do.
    """
    text = separator.join(["x", *tokens, "y"])
    words = text.split(separator)
    tail = [] if any("#" in pattern for pattern in patterns) else ["y"]
    full = [["x", *pattern, *tail] for pattern in patterns]
    setups = [
        AddressSetup(pattern=separator.join(pattern), distribution="closest", priority=i)
        for i, pattern in enumerate(full)
    ]
    ranked = [(way, i) for i, pattern in enumerate(full) if (way := rank(pattern, words)) is not None]
    assert {i for _, i in ranked} == {i for i, pattern in enumerate(full) if model_matches(pattern, words)}
    found = Rules(setups, "balanced").find(text)
    if not ranked:
        assert found.priority is None
        assert found.distribution == "balanced"
    elif any("#" in pattern[:-1] for pattern in full):
        assert found.priority in {i for _, i in ranked}
    else:
        assert found.priority == min(ranked)[1]


def test_prefix_is_pattern() -> None:
    """A prefix takes the address itself and what is below it, not what only begins like it."""
    rules = Rules([AddressSetup(prefix="a.b", distribution="multicast")], "balanced")
    assert [rules.find(text).distribution for text in ("a.b", "a/b", "a.b.c", "a.b/c.d")] == ["multicast"] * 4
    assert [rules.find(text).distribution for text in ("a", "a.bc", "x.a.b", "")] == ["balanced"] * 4
