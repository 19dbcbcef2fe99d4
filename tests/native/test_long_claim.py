"""What a message's sections claim to be costs no more than they are."""

from pathlib import Path

from tests.support.native.program import compiled, said


def test_a_message_is_gathered_once_for_a_section_that_claims_the_most(tmp_path: Path) -> None:
    """Over a link route, where the router's own octets stand in front of it."""
    said(compiled(Path(__file__).with_name("long_claim.c"), tmp_path))
