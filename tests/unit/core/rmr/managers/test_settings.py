"""What is configured about Route Managers and applications, or said by the environment; who is remembered."""

import os
from pathlib import Path

import pytest

from core.rmr.managers.remembered import LONGEST, Remembered
from routerd.config import ConfigError, parse
from routerd.translate.tables import asked_manager, interval, source_name, tables
from shm.contract.tables import TableSetup

TABLE = """
router {
 id: me
}
routeTable {
 name: rt
 serve: yes
%s
}
"""


def setup(text: str = "", **environment: str) -> TableSetup:
    """The one table of a configuration."""
    lines = "\n".join(f" {line.strip()}" for line in text.split(";"))
    (found,) = tables(parse(TABLE % lines, "test.conf"), environment)
    return found


def test_everything_has_its_place() -> None:
    """Lists are separated by commas."""
    found = setup(
        "manager: rm:4561; servedAs: router:4560; pushTo: a:4561, b:4561;"
        "pushFrom: 10.0.0.1,10.1.0.0/16; requestInterval: 7; applications: /tmp/known"
    )
    assert (found.manager, found.served_as, found.push_to) == ("rm:4561", "router:4560", ("a:4561", "b:4561"))
    assert (found.push_from, found.request_interval) == (("10.0.0.1", "10.1.0.0/16"), 7)
    assert found.applications == "/tmp/known"


def test_the_stash_is_configured_or_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The entity, RMR_STASH_RT, the state directory: the first that says something; else shared memory."""
    monkeypatch.delenv("STATE_DIRECTORY", raising=False)
    assert setup("").stash == ""
    monkeypatch.setenv("STATE_DIRECTORY", "/var/lib/routerd:/var/lib/more")
    assert setup("").stash == "/var/lib/routerd/rt.stash"
    assert setup("", RMR_STASH_RT="/tmp/theirs").stash == "/tmp/theirs"
    assert setup("stash: /tmp/ours", RMR_STASH_RT="/tmp/theirs").stash == "/tmp/ours"


def test_the_environment_of_an_application_says_the_rest() -> None:
    """RMR_RTG_SVC, RMR_RTREQ_FREQ and RMR_SRC_ID; what is configured goes before."""
    known = {"RMR_RTG_SVC": "rm:4561", "RMR_RTREQ_FREQ": "9", "RMR_SRC_ID": "svc.name:4560"}
    found = setup("", **known)
    assert (found.manager, found.request_interval, found.source) == ("rm:4561", 9, "svc.name:4560")
    found = setup("manager: other:1; requestInterval: 7", **known)
    assert (found.manager, found.request_interval) == ("other:1", 7)


@pytest.mark.parametrize(
    ("text", "expected"), [("rm:4561", "rm:4561"), ("4561", ""), ("tcp:4561", ""), ("-1", ""), ("", "")]
)
def test_rmr_rtg_svc_in_all_its_forms(text: str, expected: str) -> None:
    """A port alone: a manager that comes itself; a negative number: none at all."""
    assert asked_manager(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("1", 1), ("300", 300), ("301", 5), ("0", 5), ("-3", 5), ("x", 5), ("", 5)]
)
def test_rmr_rtreq_freq_within_its_bounds(text: str, expected: int) -> None:
    """Those of the library."""
    assert interval(text) == expected


@pytest.mark.parametrize(
    ("attributes", "source"),
    [
        (" host: 10.0.0.1\n port: 4570", "10.0.0.1:4570"),
        (" port: 4570", "box:4570"),
        (" port: 0", "box:4560"),
        (" port: 4570\n advertised: router.example.org:4571", "router.example.org:4571"),
    ],
)
def test_our_source_is_where_the_listener_of_the_table_is(
    attributes: str, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A manager may answer there on a connection of its own."""
    monkeypatch.setattr("socket.gethostname", lambda: "box.example.org")
    listener = f"listener {{\n name: rmr\n protocol: rmr\n table: rt\n{attributes}\n}}\n"
    config = parse(TABLE % "" + listener, "test.conf")
    assert tables(config, {})[0].source == source
    named = source if "router" in source else f"svc:{source.partition(':')[2]}"
    assert tables(config, {"RMR_SRC_ID": "svc"})[0].source == named


def test_a_source_name_fits_the_header(monkeypatch: pytest.MonkeyPatch) -> None:
    """63 octets with its port; the machine's name is cut at the first dot."""
    monkeypatch.setattr("socket.gethostname", lambda: "host.example.org")
    assert source_name("") == "host"
    assert source_name("svc:4560") == "svc"
    assert len(f"{source_name('x' * 100)}:4560") <= 63


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("servedAs: router", "servedAs: 'router' is not host:port with 63 octets at most"),
        ("servedAs: %s:1" % ("x" * 63), "is not host:port with 63 octets at most"),
        ("pushTo: a:1,b", "pushTo: 'b' is not host:port"),
        ("pushFrom: 10.0.0.1,host", "pushFrom: 'host' is neither an address nor a network"),
        ("requestInterval: 301", "requestInterval"),
    ],
)
def test_mistakes_are_said_with_what_to_give(text: str, reason: str) -> None:
    """Line, attribute, value and an example."""
    with pytest.raises(ConfigError) as caught:
        setup(text)
    assert reason in str(caught.value)


def test_the_first_table_that_is_configured_takes_the_place_of_the_environments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its seed, unless it has one of its own; a listener that still names the former is a mistake."""
    seed, other = str(tmp_path / "seed.rt"), tmp_path / "other.rt"
    other.touch()
    monkeypatch.setenv("RMR_SEED_RT", seed)
    router = "router {\n id: me\n}\n"
    listener = "listener {\n port: 4560\n protocol: rmr\n table: rmr\n}\n"
    assert [(one.name, one.seed) for one in tables(parse(router + listener, "x.conf"))] == [("rmr", seed)]
    own = "routeTable {\n name: own\n}\n"
    assert [(one.name, one.seed) for one in tables(parse(router + own, "x.conf"))] == [("own", seed)]
    seeded = f"routeTable {{\n name: own\n seed: {other}\n}}\n"
    assert [one.seed for one in tables(parse(router + seeded, "x.conf"))] == [str(other)]
    with pytest.raises(ConfigError, match="there is no routeTable 'rmr'"):
        parse(router + listener + own, "x.conf")


def test_applications_are_remembered(tmp_path: Path) -> None:
    """What was saved last is what is read."""
    path = tmp_path / "known"
    known = [("app:4560", "app:4561", "10.0.0.3:4561"), ("", "b:4561", "")]
    Remembered(str(path)).save(known)
    assert Remembered(str(path)).load() == known
    assert list(tmp_path.iterdir()) == [path]


def test_applications_of_an_earlier_version_are_found_again(tmp_path: Path) -> None:
    """Its file has no places to connect to: those were the control ports."""
    path = tmp_path / "known"
    path.write_bytes(b'[["app:4560", "10.0.0.3:4561"]]')
    remembered = Remembered(str(path))
    assert remembered.load() == [("app:4560", "10.0.0.3:4561", "10.0.0.3:4561")]
    remembered.save([("b:1", "b:2", "")])
    assert Remembered(str(path)).load() == [("b:1", "b:2", "")]


@pytest.mark.parametrize("content", [b"hello", b"[1]", b'[["a"]]', b"\xff", b"[" * 100_000, b"[]" + b" " * LONGEST])
def test_a_file_that_makes_no_sense_stays_as_it_is(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """It may be somebody else's. That is said once, with what to do; one that is empty is written anew."""
    path = tmp_path / "known"
    path.write_bytes(content)
    remembered = Remembered(str(path))
    assert remembered.load() == []
    assert f"{path} cannot be read" in caplog.text
    assert "the file stays as it is and nothing is remembered; move it" in caplog.text
    remembered.save([("a:1", "a:2", "")])
    assert path.read_bytes() == content
    path.write_bytes(b"")
    remembered = Remembered(str(path))
    assert remembered.load() == []
    remembered.save([("a:1", "a:2", "")])
    assert Remembered(str(path)).load() == [("a:1", "a:2", "")]


def test_a_file_of_somebody_else_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It could name applications that are none; and nobody else reads ours."""
    path = tmp_path / "known"
    Remembered(str(path)).save([("a:1", "a:2", "")])
    assert path.stat().st_mode & 0o777 == 0o600
    os.chown(path, 12345, -1) if os.geteuid() == 0 else monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert Remembered(str(path)).load() == []
    assert "cannot be read: the file belongs to another user" in caplog.text


def test_a_file_that_cannot_be_written_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The router goes on."""
    remembered = Remembered(str(tmp_path / "none" / "known"))
    assert remembered.load() == []
    remembered.save([("a:1", "a:2", "")])
    remembered.save([("b:1", "b:2")])
    assert caplog.text.count("cannot be written") == 1
    Remembered("").save([("a:1", "a:2", "")])
