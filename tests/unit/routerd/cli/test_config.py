"""`routerd check` and `routerd run` as a shell sees them."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from routerd.__main__ import main
from routerd.config import Config
from workers.loop.engine import VERSION

ROOT = Path(__file__).parents[4]


def routerd(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "routerd", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_check_of_a_good_file(tmp_path: Path) -> None:
    file = tmp_path / "router.conf"
    file.write_text("router {\n id: A\n}\nlistener {\n host: 127.0.0.1\n}\n")
    done = routerd("check", file)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{file}: ok (2 entities)\n", "")


def test_check_as_json(tmp_path: Path) -> None:
    """Each finding with its line; the exit status stays."""
    file = tmp_path / "router.conf"
    file.write_text("router {\n workers: none\n}\nlistener {\n port: 70000\n}\n")
    bad = CliRunner().invoke(main, ["check", "--json", str(file)])
    assert (bad.exit_code, [one["line"] for one in json.loads(bad.output)["findings"]]) == (1, [2, 5])
    file.write_text("listener {\n port: 5672\n}\n")
    good = CliRunner().invoke(main, ["check", "--json", str(file)])
    assert (good.exit_code, json.loads(good.output)["entities"]) == (0, 1)


def test_check_tells_every_mistake(tmp_path: Path) -> None:
    file = tmp_path / "router.conf"
    file.write_text("router {\n ide: A\n}\nlistener {\n host: 127.0.0.1\n cost: 0\n}\n")
    done = routerd("check", file)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        f"{file}:2: router ide: there is no such attribute; did you mean id?",
        f"{file}:6: listener cost: 0 is out of range; give a whole number from 1 to 2147483647",
    ]


@pytest.mark.parametrize("command", [["check"], ["run", "-c"], ["run", "--config"]])
def test_a_bad_file_never_starts_a_router(command: list[str], tmp_path: Path) -> None:
    done = routerd(*command, tmp_path / "none.conf")
    assert (done.returncode, done.stdout) == (1 if command == ["check"] else os.EX_CONFIG, "")
    assert done.stderr.startswith(f"{tmp_path / 'none.conf'}: cannot be read (No such file")


def test_version() -> None:
    """One line for people, the same as JSON for programs."""
    done = routerd("--version")
    assert done.returncode == 0
    assert done.stdout == routerd("version").stdout
    told = json.loads(routerd("version", "--json").stdout)
    assert list(told) == ["version", "commit", "engine", "python"]
    assert all(one in done.stdout for one in told.values())
    assert re.fullmatch(r"[0-9a-f]{12}(-dirty)?|unknown", told["commit"])
    assert told["engine"] == VERSION


def test_run_hands_the_configuration_to_the_supervisor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`run` ends with the supervisor's exit status, having told the warnings."""
    given: list[Config] = []

    class Supervisor:
        @staticmethod
        def run(config: Config) -> int:
            given.append(config)
            return 7

    monkeypatch.setitem(sys.modules, "routerd.supervise.supervisor", Supervisor)
    file = tmp_path / "router.toml"
    file.write_text('[router]\nid = "A"\nworkerThreads = 3\n[[listener]]\nport = 5673\n')
    done = CliRunner().invoke(main, ["run", "-c", str(file)])
    assert done.exit_code == 7
    assert done.stderr.startswith(f"{file}:3: warning: router workerThreads: ")
    assert "Use 'workers' instead" in done.stderr
    assert (given[0].router.workers, given[0].listeners[0].port_number) == (3, 5673)
    assert CliRunner().invoke(main, ["run"]).exit_code == 7
    assert given[1].listeners[0].host == "127.0.0.1"


def test_a_device_without_an_end_is_no_configuration() -> None:
    """It is read up to a bound, and refused."""
    done = CliRunner().invoke(main, ["check", "/dev/zero"])
    assert done.exit_code == 1
    assert "/dev/zero: it is longer than 16 MiB, so it is no configuration; give a .conf" in done.output
