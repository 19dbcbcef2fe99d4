"""The command line as a whole, and what it says about a router that cannot be asked."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from proton import ConnectionException, Timeout

from routerd.__main__ import main
from routerd.cli.connection_options import ClientError, Place, connect, unreachable


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
        (["stat", "--timeout", "0"], "0.0 is not in the range"),
        (["stat", "--watch", "0"], "0.0 is not in the range"),
        (["stat", "--ssl-key", "a"], "needs the certificate of that key; give it with --ssl-certificate"),
        (["stat", "--ssl-trustfile", "a"], "give --bus a URL that begins with amqps://"),
        (["stat", "--sasl-password-file", "a"], "needs a user; give one with --sasl-username"),
        (["stat", "-r", "A", "-d", "B"], "--router and --edge-router name two routers"),
        (["restart", "--rolling", "--pid", "7", "--unit", "a"], "each say which router; give one of them"),
    ],
)
def test_a_command_line_that_is_not_understood(arguments: list[str], text: str) -> None:
    """Status 2, and what would be."""
    status, line = asked(*arguments)
    assert (status, text in line) == (2, True), line


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
