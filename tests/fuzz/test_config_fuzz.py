"""Whatever stands in a file: it loads, or it raises ConfigError with a mistake at a line of the file."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from routerd.config import Config, ConfigError, load

FILES = {
    "conf": b"""router {
    id: Router.A   # the name
    workers: 2
    workerCpus: 0-3
}
listener {
    host: 127.0.0.1
    port: amqp
    openProperties: {
        "a": [1, 2.5e3, null,], b: text with blanks
        "c": {"d": "\\u00e9"}
    }
}
vhost {
    hostname: #.example.com
    groups: {
        $default: {
            remoteHosts: *
        }
    }
}
""",
    "json": b"""[["router", {"id": "A", "workers": "auto", "workerCpus": [0, "1-2"]}],
  # a comment
  ["listener", {"port": 5672, "openProperties": {"a": [1, -2.5e3, {"b": null}]}}],
  ["address", {"prefix": "a/b", "priority": 9, "waypoint": false}]]
""",
    "toml": b"""[router]
id = "A"
"workerCpus" = [0, '1-2']
[[listener]]
port = 5672
[listener.openProperties]
a.b = [1, 2.5, {c = 1979-05-27T07:32:00Z}]
[[address]]
prefix = '''
a/b'''
""",
}
FRAGMENTS = [
    *(bytes([character]) for character in b"{}[]\"'#:=,\n\\ -\x00\xff"),
    *(b"9" * 30, b"e9", b"\xc3\xa9", b"{" * 40, b"1e999", b"null", b"inf", b"auto"),
    *(b"\\ud800", b"\\n", b"\x1b", b"listener {\n", b"[[listener]]\n", b"router"),
]


@st.composite
def mutated(draw: st.DrawFn, valid: bytes) -> bytes:
    """A valid file with up to six pieces cut out, put in or exchanged."""
    data = valid
    for _ in range(draw(st.integers(1, 6))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 12)))
        data = data[:start] + draw(st.sampled_from([b"", *FRAGMENTS])) + data[end:]
    return data


def tells(path: Path, data: bytes, error: ConfigError) -> None:
    """Each mistake is one printable line at a line that the file has."""
    assert any(not mistake.warning for mistake in error.mistakes)
    for mistake in error.mistakes:
        assert 0 < mistake.line <= data.count(b"\n") + 1
        assert str(mistake).startswith(f"{path}:{mistake.line}: ")
        assert str(mistake).isprintable()


def loads_or_tells(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    try:
        config = load(path)
    except ConfigError as error:
        tells(path, data, error)
        return
    assert isinstance(config, Config)
    assert config.router.id


@pytest.mark.parametrize("spelling", FILES)
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_mutated_file(spelling: str, data: st.DataObject, tmp_path: Path) -> None:
    loads_or_tells(tmp_path / f"f.{spelling}", data.draw(mutated(FILES[spelling])))


@pytest.mark.parametrize("spelling", FILES)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=200))
def test_random_bytes(spelling: str, data: bytes, tmp_path: Path) -> None:
    loads_or_tells(tmp_path / f"f.{spelling}", data)


@pytest.mark.parametrize("spelling", FILES)
def test_the_files_that_are_mutated_are_valid(spelling: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the fuzzing would not get past the first check."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2, 3})
    path = tmp_path / f"f.{spelling}"
    path.write_bytes(FILES[spelling])
    assert load(path).router.id in ("A", "Router.A")
