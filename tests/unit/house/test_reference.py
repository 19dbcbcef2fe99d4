"""The tables in docs/ that are made from declarations say what those say now."""

import pytest

from docs.reference import HERE, PAGES, written


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_the_present_tables(page: str) -> None:
    """If this fails: python -m docs.reference"""
    text = (HERE / page).read_text(encoding="utf-8")
    assert written(page, text) == text


def test_a_page_needs_its_marks() -> None:
    with pytest.raises(ValueError, match="put both where the table belongs"):
        written("metrics.md", "no marks")
