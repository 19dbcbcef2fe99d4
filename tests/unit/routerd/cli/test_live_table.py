"""What `routerd table who` shows."""

from rich.console import Console

from routerd.cli.live_table import _applications, _lagging, _manager

ROW = {
    "table": "ric", "endpoint": "127.0.0.1:4560", "controlIdentity": "127.0.0.1:4561", "tableId": "first@0136f0cf.1",
    "mapId": "", "state": "ok", "since": 1_700_000_000, "reason": None,
}  # fmt: skip


def test_applications_fit_a_terminal_of_80_columns() -> None:
    """No cell goes on in the next line; maps of managed entities have a column where there are some."""
    console = Console(soft_wrap=True, width=80)
    with console.capture() as captured:
        console.print(_applications([ROW, ROW | {"state": "unknown"}]))
    rows = [line.split() for line in captured.get().splitlines() if line.strip().startswith("ric")]
    told = ["ric", "127.0.0.1:4560", "127.0.0.1:4561", "first@0136f0cf.1"]
    assert rows == [[*told, "ok"], [*told, "unknown"]]
    assert "map" not in captured.get()
    with console.capture() as captured:
        console.print(_applications([ROW, ROW | {"mapId": "second@0.1"}]))
    assert "map" in captured.get()


def test_what_is_not_ok_has_its_time_and_reason() -> None:
    late = "ric: 127.0.0.1:4560: {} since 2023-11-14 22:13:20 UTC"
    assert _lagging(ROW | {"state": "unknown"}) == late.format("unknown")
    assert _lagging(ROW | {"state": "err", "reason": "line 3"}) == late.format("err") + ": line 3"


def test_an_application_that_has_not_said_its_endpoint_has_its_control_port() -> None:
    """Its reason moves no cursor."""
    waits = ROW | {"state": "pending", "endpoint": None, "reason": "a\x1b[2Jb"}
    assert _lagging(waits) == "ric: 127.0.0.1:4561: pending since 2023-11-14 22:13:20 UTC: a\\x1b[2Jb"
    asked = {"table": "ric", "manager": "127.0.0.1:4561", "state": "refused", "tableId": "t", "reason": "a\x1bb"}
    assert _manager(asked) == "ric: Route Manager 127.0.0.1:4561: refused: t: a\\x1bb"
