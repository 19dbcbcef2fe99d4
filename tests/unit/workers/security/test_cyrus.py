"""What Cyrus SASL says of a user's name."""

from types import SimpleNamespace
from typing import Any

import pytest

from workers.control.cyrus import CONTINUE, MALFORMED, OK, Exchange, Said


def exchange(code: int, name: bytes) -> Exchange:
    """With a library that answers so, and knows that name."""

    def known(_state: object, _what: int, to: Any) -> int:
        to._obj.value = name
        return OK

    library = SimpleNamespace(
        sasl_server_new=lambda *_: OK,
        sasl_server_start=lambda *_: code,
        sasl_getprop=known,
        sasl_dispose=lambda _: None,
    )
    return Exchange(SimpleNamespace(library=library, text=str))  # type: ignore[arg-type]  # as much of it as is used


@pytest.mark.parametrize("name", ["alice", "größe", "\ufffd"])
def test_a_name_in_utf8_is_the_users(name: str) -> None:
    assert exchange(OK, name.encode()).start("OTHER", b"") == Said(OK, b"", name)


@pytest.mark.parametrize(("name", "shown"), [(b"k\xf6ln", r"k\xf6ln"), (b"\x80", r"\x80"), (b"\x81", r"\x81")])
def test_a_name_that_is_no_text_logs_nobody_in(name: bytes, shown: str) -> None:
    """Two of them were one user, whose name had U+FFFD."""
    answer = exchange(OK, name).start("OTHER", b"")
    assert answer.code in MALFORMED
    assert (answer.user, answer.question) == (shown, b"")


def test_a_question_names_nobody() -> None:
    assert exchange(CONTINUE, b"alice").start("OTHER", b"") == Said(CONTINUE, b"")
