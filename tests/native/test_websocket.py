"""The answers to a WebSocket's control frames reach its peer whole."""

from pathlib import Path

from tests.support.native.program import compiled, said


def test_an_answer_waits_for_the_rest_of_the_one_before(tmp_path: Path) -> None:
    """However the socket takes them; of those that have not begun, the last one goes (RFC 6455, 5.5.3)."""
    said(compiled(Path(__file__).with_name("websocket.c"), tmp_path, "-fsanitize=address,undefined"))
