"""The measurement of router annotations runs, and says what it is about."""

import pytest
from click.testing import CliRunner

from bench.annotations import FORMS, main, measure
from bench.targets import BenchError


def test_every_form_is_measured() -> None:
    """A trace grows with the routers that a message has passed; a plain message has none."""
    costs = measure(200, routers=(1, 2))
    assert [(cost.form, cost.routers) for cost in costs] == [
        ("none", 0),
        *((form, n) for form in FORMS if form != "none" for n in (1, 2)),
    ]
    by_case = {(cost.form, cost.routers): cost for cost in costs}
    assert by_case["none", 0].octets == 0
    for form in ("map", "section", "skupper"):
        assert by_case[form, 2].octets - by_case[form, 1].octets == len("0/router-1") + 2
    assert all(cost.read > 0 and cost.write > 0 for cost in costs)


def test_the_table_names_what_it_shows() -> None:
    shown = CliRunner().invoke(main, ["--rounds", "100"])
    assert shown.exit_code == 0
    assert shown.output.splitlines()[0].split()[:3] == ["form", "routers", "octets"]


def test_without_a_compiler_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(BenchError, match="apt install gcc"):
        measure(1)
