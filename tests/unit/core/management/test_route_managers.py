"""Rows of applications by name and identity."""

from types import SimpleNamespace
from typing import Any

import pytest

from core.management.route_managers import Applications
from core.rmr.managers.application import Application
from core.rmr.managers.applications import Applications as Known


@pytest.mark.parametrize(
    ("control", "endpoint"),
    [("host:4561", "host:4560"), ("one/host:4561", "host:4560"), ("host:4561", "one/host:4560"), ("a/b:1", "c/d/e:2")],
)
def test_an_application_is_found_by_what_its_row_says(control: str, endpoint: str) -> None:
    """Slashes may be in the table, the control port and the endpoint."""
    known = Known()
    known.add(Application(endpoint, control, ""))
    session: Any = SimpleNamespace(table="t/u", server=known)
    view: Any = SimpleNamespace(core=SimpleNamespace(plane=lambda _: [session]), seconds_since=lambda _: 0)
    rows = Applications(view)
    (row,) = rows.rows()
    assert row.identity == f"t/u/{control}/{endpoint}"
    assert [one.identity for one in rows.among(None, row.identity)] == [row.identity]
    assert [one.identity for one in rows.among(f"t/u/{control}", None)] == [row.identity]
