"""Our prototypes of the proton engine against what the engine publishes about itself."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import cproton_ffi
import pytest

ROOT = Path(__file__).resolve().parents[3]
TEXT = "".join((ROOT / header).read_text(encoding="ascii") for header in ("workers/state/engine.h", "bench/engine.h"))
HEADER = re.sub(r",\n +", ", ", TEXT)  # a prototype in one line
# Those of the glue alone, as Cython declares them: without semicolons, and bool under another name.
GLUE = (ROOT / "workers/loop/libproton.pxd").read_text(encoding="ascii").partition("cdef extern nogil:\n")[2]
HEADER += re.sub(r"^ +(.*\))$", r"\1;", GLUE, flags=re.MULTILINE).replace("cbool", "bool")
RETURNS = r"^(?P<returns>[a-z_0-9 ]+[ *]+)"
PROTOTYPE = re.compile(RETURNS + r"(?P<name>pnx?_\w+)\((?P<takes>[^)]*)\);$", re.MULTILINE)
CONSTANT = re.compile(r"\b(PN_\w+) = (0x[0-9a-f]+|\d+)")
ENUMS = (
    "pn_event_type_t", "pn_snd_settle_mode_t", "pn_rcv_settle_mode_t", "pn_terminus_type_t", "pn_type_t",
    "pn_durability_t", "pn_expiry_policy_t", "pn_distribution_mode_t",
    "pn_sasl_outcome_t", "pn_ssl_mode_t", "pn_ssl_verify_mode_t",
    "pn_ssl_cert_subject_subfield", "pn_ssl_hash_alg",
)  # fmt: skip
PROTOTYPES = {match["name"]: (match["returns"], match["takes"]) for match in PROTOTYPE.finditer(HEADER)}


def plain(declared: str) -> str:
    """A type as text without what cffi leaves out or spells differently, and without a parameter's name."""
    words = re.sub(r"\b(const|struct|enum)\b", "", declared).replace("*", " * ").split()
    if len(words) > 1 and words[-1].isidentifier():
        words.pop()
    text = "".join(words)
    same = {"bool": "_Bool", "void": ""}
    return same.get(text, "int" if text in ENUMS else text)


def signature(returns: str, takes: str) -> tuple[str, list[str]]:
    """Return type and parameter types, comparable."""
    parameters = [plain(one) for one in takes.split(",")]
    return plain(f"{returns} x") or "void", [one for one in parameters if one]


def published(name: str) -> tuple[str, list[str]] | None:
    """What cffi knows of a function, None if nothing."""
    try:
        kind = cproton_ffi.ffi.typeof(cproton_ffi.ffi.addressof(cproton_ffi.lib, name))
    except AttributeError:
        return None
    returns, _, takes = cproton_ffi.ffi.getctype(kind).partition("(*)")
    if "(*)" in takes:
        return None  # it takes a function, whose own commas and parentheses stand among its
    return signature(returns, takes.strip("()"))


def test_every_prototype_is_seen() -> None:
    """The pattern reads all of the header, so that nothing escapes the other tests."""
    assert len(PROTOTYPES) == len(re.findall(r"^\w.*\);$", HEADER, re.MULTILINE))


@pytest.mark.parametrize("name", sorted(PROTOTYPES))
def test_prototype_is_that_of_the_engine(name: str) -> None:
    """A changed engine is noticed here and not by a crash."""
    assert hasattr(ctypes.CDLL(cproton_ffi.__file__), name)
    known = published(name)
    assert known is None or signature(*PROTOTYPES[name]) == known


def test_most_prototypes_can_be_compared() -> None:
    """The comparison is not empty."""
    assert sum(published(name) is not None for name in PROTOTYPES) > len(PROTOTYPES) * 0.8


@pytest.mark.parametrize(("name", "value"), CONSTANT.findall(HEADER))
def test_constant_is_that_of_the_engine(name: str, value: str) -> None:
    """Event types and outcomes have the engine's numbers."""
    published_value = getattr(cproton_ffi.lib, name, None)
    assert published_value is None or published_value == int(value, 0)


def test_comparison_notices_a_difference() -> None:
    """A wrong prototype is told apart."""
    assert signature("int ", "pn_link_t *link, int credit") != published("pn_link_flow")
    assert signature("void ", "pn_link_t *link, int credit") == published("pn_link_flow")
