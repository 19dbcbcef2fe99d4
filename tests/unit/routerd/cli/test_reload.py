"""`routerd reload` at a router whose supervisor does nothing."""

import os
from types import SimpleNamespace

import pytest

from routerd.cli import reload
from routerd.cli.restart import Found, RestartError


def test_a_supervisor_that_does_not_read_is_told_with_what_comes_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal waits for it, so the configuration may be taken later."""
    page = SimpleNamespace(counters={"config_reads": 1})
    view = SimpleNamespace(journal=lambda _: SimpleNamespace(lines=lambda _: []), page=lambda _: page)
    monkeypatch.setattr(reload, "SharedView", lambda _: view)
    monkeypatch.setattr(os, "kill", lambda *_: None)
    with pytest.raises(RestartError) as late:
        reload.run(Found("A", 1), 0)
    assert late.value.message == (
        "router A has not read its configuration within 0 s; its supervisor hangs or is busy, and reads it once it "
        "goes on: /healthz says whether it hangs, and `routerd log` what has become of the configuration"
    )
