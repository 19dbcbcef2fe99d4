"""The command line as a whole, and what it says about a router that cannot be asked."""

import json
import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from proton import ConnectionException, Timeout

from routerd.__main__ import main
from routerd.cli.connection_options import ClientError, Place, connect, unreachable
from routerd.cli.program import Program
from routerd.cli.qdstat_options import INSTEAD


def commands(group: click.Group, name: str = "routerd") -> Iterator[tuple[str, click.Command]]:
    """Every command that can be typed."""
    context = click.Context(group)
    for word in group.list_commands(context):
        command = group.get_command(context, word)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{name} {word}")
        else:
            yield f"{name} {word}", command


def asked(*arguments: str) -> tuple[int, str]:
    """Status and the last line on standard error."""
    done = CliRunner().invoke(main, arguments)
    return done.exit_code, (done.stderr.strip().splitlines() or [""])[-1]


def test_every_command_and_option_says_what_it_is_for() -> None:
    silent = []
    for name, command in commands(main):
        options = [one for one in command.params if isinstance(one, click.Option)]
        silent += [f"{name} {option.opts[0]}" for option in options if not option.help]
        if not command.help:
            silent.append(name)
    assert not silent


def test_the_list_of_commands_is_not_cut_off() -> None:
    """What stands beside a command fits into a line of 80 columns."""
    for group in ([], ["table"], ["route"], ["pipeline"]):
        _, _, table = CliRunner().invoke(main, [*group, "--help"]).stdout.partition("Commands:")
        assert table
        assert "..." not in table


def test_help_fits_a_terminal_of_80_columns() -> None:
    wide = [
        line
        for name, _ in commands(main)
        for line in CliRunner().invoke(main, [*name.split()[1:], "--help"]).stdout.splitlines()
        if len(line) > 80
    ]
    assert not wide


def test_every_command_prints_json_that_prints_results() -> None:
    """`manage` prints nothing else, `run` runs, the pipeline writes files, and a replay prints records."""
    without = {name for name, one in commands(main) if not any("--json" in option.opts for option in one.params)}
    pipeline = {name for name in without if name.startswith("routerd pipeline ")}
    assert without - pipeline == {"routerd manage", "routerd replay", "routerd run"}


def test_help_is_sentences() -> None:
    """Each begins with a capital letter and ends with a full stop, of a command as of an option."""
    said = [(name, one.get_short_help_str(limit=200)) for name, one in commands(main)]
    said += [(name, (one.help or "").partition("\n\n    \b")[0]) for name, one in commands(main)]  # \b: a table
    options = [(name, one) for name, command in commands(main) for one in command.params]
    said += [(f"{name} {one.opts[0]}", one.help or "") for name, one in options if isinstance(one, click.Option)]
    assert len(said) > 200
    assert [(name, text) for name, text in said if not re.fullmatch(r"(?s)[A-Z].*[.]\s*", text)] == []


ASKING = ["bench", "log", "ping", "receive a", "send a b", "stat", "table ask --mt 1", "table who"]


@pytest.mark.parametrize("arguments", ASKING)
def test_an_error_is_json_too(arguments: str) -> None:
    """A script that reads JSON learns from one object why there is nothing else; a person reads the sentence."""
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    done = CliRunner().invoke(main, [*arguments.split(), "--bus", f"amqp://127.0.0.1:{port}", "--json"])
    assert done.exit_code == 1, done.output
    told = json.loads(done.stdout)
    assert list(told) == ["error"]
    assert f"Error: {told['error']}\n" in done.stderr
    assert "Connection refused" in told["error"]


@pytest.mark.parametrize("arguments", ["table show", "table check", "table diff other", "table explain --mt 1"])
def test_an_error_of_a_file_is_json_too(tmp_path: Path, arguments: str) -> None:
    group, command, *more = arguments.split()
    done = CliRunner().invoke(main, [group, command, str(tmp_path / "none.rt"), *more, "--json"])
    assert done.exit_code == 1, done.output
    assert list(json.loads(done.stdout)) == ["error"]


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", ["version", "version --json", "--help", "stat --help", "route explain A=>B"])
def test_output_that_cannot_be_written(arguments: str, unbuffered: str) -> None:
    """A full disk is one line on standard error; a reader that is gone is none, and no error.

    Its status does not depend on how much was printed before the reader went.
    """
    command = [sys.executable, "-m", "routerd", *arguments.split()]
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    here, there = os.pipe()
    os.close(here)
    with Path("/dev/full").open("w") as full, open(there, "w") as nobody:
        told = [
            subprocess.run(command, stdout=to, stderr=subprocess.PIPE, text=True, env=environment, check=False)
            for to in (full, nobody)
        ]
    assert [(one.returncode, one.stderr) for one in told] == [
        (1, "Error: the output cannot be written (No space left on device); write it where there is room\n"),
        (0, ""),
    ]


@pytest.mark.parametrize("closed", [">&-", "<&- >&-"])
@pytest.mark.parametrize("arguments", ["version", "version --json", "stat --help", "route explain A=>B"])
def test_output_that_is_closed(arguments: str, closed: str) -> None:
    """One line says so, and the status is 1: a script must not take silence for success."""
    command = f"exec {shlex.quote(sys.executable)} -m routerd {shlex.join(arguments.split())} {closed}"
    done = subprocess.run(["/bin/sh", "-c", command], stderr=subprocess.PIPE, text=True, check=False)
    expected = "Error: the output cannot be written (Bad file descriptor): standard output is closed; open it"
    assert (done.returncode, done.stderr.count("\n"), done.stderr.startswith(expected)) == (1, 1, True), done.stderr


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_terminal_that_is_not_utf_8(more: list[str]) -> None:
    """Characters that it lacks become escapes; Python's default is an exception."""
    command = [sys.executable, "-m", "routerd", "route", "explain", "\u0100=>B", *more]
    environment = os.environ | {"PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"\u0100" in done.stdout


def test_other_errors_of_the_system_are_faults() -> None:
    """They have a traceback: the output is not what they are about."""

    @click.command(cls=Program)
    def broken() -> None:
        raise FileNotFoundError(2, "No such file", "there")

    done = CliRunner().invoke(broken, [])
    assert isinstance(done.exception, FileNotFoundError)


def test_examples_in_the_help_are_understood() -> None:
    """Each is a command line that its command takes."""
    examples = [
        (command, shlex.split(line)[len(name.split()) :])
        for name, command in commands(main)
        for line in re.findall(r"(?m)^  (routerd .*)$", command.epilog or "")
    ]
    assert len(examples) > 10
    for command, arguments in examples:
        command.make_context(command.name, arguments)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["chekc"], "Did you mean 'check'?"),
        (["manage", "update", "--type", "log"], "update changes nothing without attributes; give some as name=value"),
        (["table", "chek"], "Did you mean 'check'?"),
        (["run", "a.conf"], "'a.conf' is not understood; give a configuration as --config a.conf"),
        (["manage", "qury"], "there is no operation 'qury'; did you mean query?"),
        (["manage", "nonsense"], "there is no operation 'nonsense'; give one of query, create"),
        (["manage", "delete", "--name", "a", "b"], "delete takes no 'b'"),
        (["manage", "query", "name=a"], "query takes names of attributes, and not 'name=a'"),
        (["manage", "create", "name"], "'name' is not understood; give attributes as name=value"),
        (["manage", "update", "=a"], "'=a' is not understood; give attributes as name=value"),
        (["stat", "--bus", "amqp://a:port"], "no URL of a router; give one such as amqp://127.0.0.1:5672"),
        (["stat", "--bus", "http://a"], "no URL of a router; give one such as amqp://127.0.0.1:5672"),
        (["stat", "--bus", "a:65536"], "there is no port 65536; give one from 1 to 65535"),
        (["stat", "--bus", "amqps://a:0"], "there is no port 0; give one from 1 to 65535"),
        (["stat", "--addresses", "--address", "\udcff"], "is not UTF-8; give it in UTF-8"),
        (["log", "--module", "\udcff"], "is not UTF-8; give it in UTF-8"),
        (["route", "trace", "\udcff=>B"], "is not UTF-8; give it in UTF-8"),
        (["stat", "--connections", "--stuck"], "--stuck does not choose among these rows; it goes with"),
        (["stat", "--connections", "--sort", "colour"], "there is no column 'colour' here to sort by"),
        (["stat", "--timeout", "0"], "0.0 is not in the range"),
        (["stat", "--timeout", "nan"], "nan is no number of seconds"),
        (["ping", "--interval", "inf"], "inf is not in the range"),
        (["bench", "--size", "9999999999"], "9999999999 is not in the range"),
        (["stat", "--watch", "0"], "0.0 is not in the range"),
        (["stat", "--ssl-key", "a"], "needs the certificate of that key; give it with --ssl-certificate"),
        (["stat", "--ssl-trustfile", "a"], "give --bus a URL that begins with amqps://"),
        (["stat", "--sasl-password-file", "a"], "needs a user; give one with --sasl-username"),
        (["stat", "-r", "A", "-d", "B"], "--router and --edge-router name two routers"),
        (["stat", "--sasl-username", "x"], "--sasl-username needs a password; give a file"),
        (["stat", "-l", "-c"], "--connections and --links are 2 tables; give one of them"),
        (["manage", "get-log", "--type", "link"], "get-log takes no --type; `routerd log --module`"),
        (["manage", "get-mgmt-nodes", "--type", "link"], "get-mgmt-nodes takes no --type"),
        (["manage", "query", "--type", "\udcff\udcfe"], "'\\udcff\\udcfe' is not UTF-8"),
        (["send", "a", "b", "--router", "B"], "give --bus the router to connect to"),
        (["receive", "a", "--edge-router", "B"], "give --bus the router to connect to"),
        (["restart", "--rolling", "--pid", "7", "--unit", "a"], "each say which router; give one of them"),
    ],
)
def test_a_command_line_that_is_not_understood(arguments: list[str], text: str) -> None:
    """Status 2, and what would be."""
    status, line = asked(*arguments)
    assert (status, text in line) == (2, True), line


@pytest.mark.parametrize("option", INSTEAD)
def test_who_types_an_option_of_qdstat_learns_what_is_its_like_here(option: str) -> None:
    """Options that the hint names are there."""
    options = {name for parameter in main.commands["stat"].params for name in parameter.opts}
    assert option not in options
    status, line = asked("stat", option)
    assert (status, f"{option} is an option of qdstat; {INSTEAD[option]}" in line) == (2, True), line
    there = INSTEAD[option].partition("`")[0]
    assert set(re.findall(r"--[a-z-]+", there)) <= options


@pytest.mark.parametrize(
    ("option", "more"),
    [
        ("--ssl-trustfile", []),
        ("--ssl-certificate", []),
        ("--ssl-key", ["--ssl-certificate", __file__]),
        ("--sasl-password-file", ["--sasl-username", "a"]),
    ],
)
def test_a_file_that_cannot_be_read(tmp_path: Path, option: str, more: list[str]) -> None:
    """Named, with its option, before anybody is connected to."""
    file = str(tmp_path / "none")
    told = asked("stat", "--bus", "amqps://127.0.0.1:1", option, file, *more)
    assert told == (1, f"Error: {option}: {file} cannot be read (No such file or directory)")


def test_files_that_are_no_certificates() -> None:
    with pytest.raises(ClientError, match="are they PEM"):
        connect(Place("amqps://127.0.0.1:1", certificate=__file__))


@pytest.mark.parametrize(
    ("condition", "advice"),
    [
        ("('proton.pythonio', 'Connection refused to all addresses')", "is the router running?"),
        ("('amqp:connection:framing-error', 'SSL Failure: certificate verify failed')", "--ssl-trustfile"),
        ("('amqp:connection:framing-error', 'SSL Failure: sslv3 alert certificate expired')", "has expired: give one"),
        ("('amqp:connection:framing-error', 'SSL Failure: alert certificate required')", "--ssl-certificate"),
        ("('amqp:connection:framing-error', 'SSL Failure: tlsv1 alert unknown ca')", "does not trust"),
        ("('amqp:connection:framing-error', 'SSL Failure: unexpected eof')", "is TLS spoken at that port?"),
        ("('amqp:connection:framing-error', 'Expected AMQP protocol header: none')", "a listener for AMQP?"),
        ("('proton.pythonio', 'Connection reset by peer')", "a listener for AMQP?"),
        ("('amqp:unauthorized-access', 'Authentication failed [mech=none]')", "--sasl-username"),
        ("('amqp:unauthorized-access', 'Authentication failed [mech=PLAIN]')", "password, is not the right"),
        ("('amqp:unauthorized-access', 'No link allowed')", "may not manage the router"),
        ("('amqp:resource-limit-exceeded', 'too many')", "lets nobody in"),
    ],
)
def test_advice_fits_the_reason(condition: str, advice: str) -> None:
    """And the password in a URL is told to nobody."""
    error = ConnectionException(f"Connection amqp://ann:secret@a disconnected: Condition{condition}")
    text = str(unreachable(Place("amqp://ann:secret@a"), error))
    assert text.startswith("cannot reach the router at amqp://a (")
    assert advice in text
    assert "secret" not in text


def test_silence_is_told_with_its_length() -> None:
    text = str(unreachable(Place("ann:secret@a", timeout=3.0), Timeout("Connection ann:secret@a timed out")))
    assert text.startswith("cannot reach the router at a (no answer within 3 s); ")


def test_errors_of_the_pipeline_are_one_sentence() -> None:
    """Through this command line, too, which loads the group when one of its commands is used."""
    done = CliRunner().invoke(main, ["pipeline", "generate", "/proc/no-directory", "--records", "1000"])
    assert (done.exit_code, type(done.exception)) == (1, SystemExit)
    assert done.output.startswith("Error: ")
    assert len(done.output.splitlines()) == 1
