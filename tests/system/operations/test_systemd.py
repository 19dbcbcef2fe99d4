"""The units in systemd/: checked by systemd's own tools, and used by a real systemd in a container."""

import json
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.support.routers.container import ROOT, UNITS, boot
from tests.support.routers.debs import ASKED
from tests.support.tool import ROUTERD

ANALYZE = shutil.which("systemd-analyze")
analyze = pytest.mark.skipif(ANALYZE is None, reason="install the Debian package systemd to test the units")


def run(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([ANALYZE or "", *arguments], capture_output=True, text=True, check=False)


def units(folder: Path) -> list[Path]:
    """The units as installed, but for the program, which need not be installed for this."""
    for unit in UNITS.glob("routerd*"):
        name = unit.name.replace("@.", "@one.")
        (folder / name).write_text(unit.read_text().replace("/opt/routerd/bin/routerd", "/bin/true"))
    return sorted(folder.iterdir())


@analyze
def test_systemd_finds_nothing_to_complain_about(tmp_path: Path) -> None:
    """No unknown key, no wrong value, in none of them."""
    files = units(tmp_path)
    assert [file.name for file in files] == [
        "routerd-pipeline.service", "routerd-pipeline.timer", "routerd-stream.service", "routerd.service",
        "routerd.socket", "routerd@one.service",
    ]  # fmt: skip
    verify = run("verify", *files)
    assert (verify.returncode, verify.stdout + verify.stderr) == (0, "")


@analyze
@pytest.mark.parametrize(
    ("name", "page"),
    [
        ("routerd.service", "operations"),
        ("routerd@one.service", "operations"),
        ("routerd-pipeline.service", "pipeline"),
        ("routerd-stream.service", "pipeline"),
    ],
)
def test_the_exposure_is_what_the_documentation_says(tmp_path: Path, name: str, page: str) -> None:
    """The tighter the better: a looser unit fails here."""
    units(tmp_path)
    security = run("security", "--offline=true", "--threshold=15", tmp_path / name)
    assert security.returncode == 0, security.stdout
    score = re.search(r"Overall exposure level for \S+: ([\d.]+)", security.stdout)
    assert score is not None
    assert f"exposure level of {score[1]} " in (ROOT / "docs" / f"{page}.md").read_text()


def test_the_units_of_the_pipeline_have_commands_that_exist(tmp_path: Path) -> None:
    """They find no log, in the words of the pipeline and not of the command line."""
    lines = [
        line
        for name in ("routerd-pipeline.service", "routerd-stream.service")
        for line in (UNITS / name).read_text().splitlines()
    ]
    commands = [line.partition("/bin/routerd ")[2] for line in lines if line.startswith("ExecStart=")]
    assert [command.split()[1] for command in commands] == ["run", "check", "stream"]
    options = {"$RUN": "", "$CHECK": "--lost 0.01", "$STREAM": "--keep 7"}
    for command in commands:
        words = re.sub(r"\$\{(\w+)\}", rf"{tmp_path}/\1", command)
        words = " ".join(options.get(word, word) for word in words.split())
        done = subprocess.run([ROUTERD, *words.split()], capture_output=True, text=True, check=False)
        assert done.returncode == 1, done.stderr
        assert re.match(r"Error: \S+ (is not a directory|holds no results)", done.stderr), done.stderr


def test_the_template_differs_in_its_configuration_only() -> None:
    """What is right for one instance is right for several."""
    one, several = ((UNITS / f"routerd{at}.service").read_text().splitlines() for at in ("", "@"))
    differing = [line for line in set(one) ^ set(several) if not line.startswith("#")]
    assert sorted(differing) == [
        "Description=Message router for AMQP 1.0",
        "Description=Message router for AMQP 1.0: %i",
        "ExecReload=/opt/routerd/bin/routerd check /etc/routerd/%i.conf",
        "ExecReload=/opt/routerd/bin/routerd check /etc/routerd/routerd.conf",
        "ExecStart=/opt/routerd/bin/routerd run --config /etc/routerd/%i.conf",
        "ExecStart=/opt/routerd/bin/routerd run --config /etc/routerd/routerd.conf",
    ]


@pytest.mark.skipif(not ASKED, reason="a whole system starts: make test-packages runs it")
@pytest.mark.timeout(400)  # the container has 330 s
def test_a_real_systemd_refuses_no_client(tmp_path: Path) -> None:
    """Start, reload, restart, roll, hung worker, hung supervisor, kill -9, stop: a client connects on. Under
    the shipped unit every kind of listener serves, and the flow log is written where the unit lets it."""
    result, printed = boot(tmp_path, "[Service]\nWatchdogSec=8\n")
    file = result / "done.json"
    assert file.exists(), printed
    done = json.loads(file.read_text())
    journal = (result / "journal").read_text()
    assert "error" not in done, f"{done}\n{(result / 'output').read_text()}\n{journal}"
    steps = ("reload", "refused_reload", "other_hosts", "restart", "roll", "worker_hangs", "hang", "kill")
    assert all(done[step]["served"] > 0 for step in steps), done
    outcomes = done["outcomes"]
    assert outcomes.pop("served") > 0
    # Whoever had just been accepted by a process that was killed loses the connection; nobody is refused.
    assert outcomes.keys() <= {"cut off", "ConnectionResetError"}, done
    assert sum(outcomes.values()) <= 3, done
    assert done["start"].startswith("2 of 2 workers serve")
    seen, processes = done["seen"], {"core", "exporter", "recorder", "supervisor", "worker-0", "worker-1"}
    assert len(seen["pages"]) == 14
    assert {*seen["pages"].values(), *done["pages"].values()} == {200}
    assert (seen["body"], seen["websocket"]) == ("hello", "HTTP/1.1 101 Switching Protocols")
    assert seen["frames"] == {"rmr": True, "ockam": True}
    assert {metric: set(found) for metric, found in seen["figures"].items()} == dict.fromkeys(
        seen["figures"], processes
    )
    assert seen["managed"] == dict.fromkeys(processes - {"exporter"}, True)
    assert done["flows"] > 0
    assert (done["user"], done["children"], done["shared memory"]) == (True, 3, True)
    assert done["watchdog"]
    assert done["stopped"] == ["success", "0"]
    assert done["left in shared memory"] == []
    assert (done["mistake"], done["its socket"]) == (["failed", "0", "78"], "active")
    assert "Removed what a killed router left in shared memory" in journal
    assert "hung: its loop has not turned for" in journal
    for added in ("127.0.0.1:5673", "0.0.0.0:5672", "*:5672"):
        assert f"Reload: listener {added} added" in journal
    assert "systemd holds the port for this service, on [::]:5672, and no other socket fits beside it" in journal
    assert "stop the socket unit and the service, and start both again" in journal  # a restart leaves the socket closed
    assert "Traceback" not in journal
    assert done["reload of a broken file"] == "failed"
    of_unit, of_router, status = done["shown of it"]
    assert re.search(r"routerd check [^}]*status=1", of_unit), of_unit
    assert "refused" not in of_router
    assert re.search(r"ExecReload=\S+ check .*status=1/FAILURE", status), status
    assert journal.count("Reload refused: ") == 2  # the router had not heard of that one
    assert (done["refused"], done["taken"]) == ({"supervisor": 0}, {"supervisor": 1})
    assert done["taken at"]["supervisor"] > 1e9
    check_lines([json.loads(line) for line in (result / "lines").read_text().splitlines()])


def check_lines(lines: list[dict[str, str]]) -> None:
    """Each line of the log has the priority of its level, no mark and no time: the journal has both."""
    priorities = {"debug": "7", "info": "6", "notice": "5", "warning": "4", "error": "3", "critical": "2"}
    levels = Counter()
    for line in lines:
        if found := re.match(r"[A-Z_]+ \((\w+)\) .* process=[a-z]", line["MESSAGE"]):
            assert line["PRIORITY"] == priorities[found[1]], line
            levels[found[1]] += 1
    assert levels.keys() >= {"info", "notice", "warning", "error"}
    said = [line["MESSAGE"] for line in lines]
    assert not any("process=" in text and re.match(r"\d{4}-|<", text) for text in said)
    assert not any("Ctrl-C" in text for text in said)
    wrong = [line for line in lines if "routerd.conf:" in line["MESSAGE"] and "nonsense" in line["MESSAGE"]]
    assert [line["PRIORITY"] for line in wrong] == ["3"]  # of the check
