"""The commands that send, receive, measure and show the log, without a program of the user's own."""

import json
import socket
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest
from proton.utils import BlockingConnection

from tests.support.clients.wire import AMQP_HEADER, OPEN, described, frame
from tests.support.running import LONG, RunningRouter, until
from tests.support.tool import ROUTERD, begun, tool


def test_the_tool_sends_and_receives(router: RunningRouter) -> None:
    """First messages, round trips, and a first figure, as a user runs them; who gets no outcome is told."""
    receiving = begun(router, "receive", "tool.first", "--count", "3", "--json")
    until(lambda: "tool.first" in tool(router, "stat", "--addresses").stdout, "the receiver")
    given = ("--property", "a=b", "--number", "n=-1")
    sent = tool(router, "send", "tool.first", "hello", "-", *given, given=b"x\ny\n")
    assert (sent.returncode, sent.stdout) == (0, "3 accepted\n")
    rows = [json.loads(line) for line in receiving.communicate(timeout=LONG)[0].splitlines()]
    assert (receiving.returncode, [row["body"] for row in rows]) == (0, ["hello", "x", "y"])
    assert all(row["properties"] == {"a": "b", "n": -1} for row in rows)
    for odd in ("n", "n=x", f"n={2**63}"):
        assert tool(router, "send", "tool.first", "--number", odd).returncode == 2
    for wrong in (["send", "tool.first", "-"], ["send", b"tool.\xff", "x"], ["receive", b"\xff"], ["bench", b"\xff"]):
        refused = tool(router, *wrong, given=b"\xff\n")
        assert (refused.returncode in (1, 2), "not UTF-8" in refused.stderr) == (True, True), wrong
    refused = tool(router, "receive", "$management", "--json")
    assert (refused.returncode, list(json.loads(refused.stdout))) == (1, ["error"])
    assert "lets no link to $management" in json.loads(refused.stdout)["error"]
    alone = tool(router, "send", "tool.nobody", "x", "--timeout", "3")
    assert (alone.returncode, alone.stdout) == (1, "0 accepted, 1 not sent\n")
    assert "the message was not sent" in alone.stderr
    assert "safe to send it again" in alone.stderr
    none = tool(router, "receive", "tool.first", "--count", "1", "--wait", "0.2")
    assert (none.returncode, none.stdout) == (1, "")
    assert none.stderr == "no message came for 0.2 s\n0 messages received\n"
    impatient = tool(router, "send", "tool.nobody", "--timeout", "1.2")
    assert impatient.stderr.splitlines()[:2] == [
        "no BODIES are given: the command sends an empty message (- sends standard input)",
        "waiting for an outcome, for 1.2 s at most",
    ]
    measured = json.loads(tool(router, "ping", "--count", "3", "--json").stdout)
    assert (measured["count"], 0 < measured["least"] <= measured["most"]) == (3, True)
    loaded = json.loads(tool(router, "bench", "--seconds", "0.5", "--json").stdout)
    assert (loaded["messages"] > 0, set(loaded["cpuMicroseconds"])) == (True, {"core", "worker-0", "worker-1"})


def test_a_receiver_waits_for_ever(router: RunningRouter) -> None:
    """Longer than for any answer; and it takes no message that it does not print."""
    waiting = begun(router, "receive", "tool.waits", "--count", "1", "--timeout", "0.3")
    until(lambda: "tool.waits" in tool(router, "stat", "--addresses").stdout, "the receiver")
    time.sleep(1)
    assert waiting.poll() is None
    assert tool(router, "send", "tool.waits", "x").returncode == 0
    assert waiting.communicate(timeout=LONG)[0] == "x\n"
    late = tool(router, "send", "tool.waits", "y", "--timeout", "0.5")
    assert late.returncode == 1


def test_a_message_without_an_outcome_is_in_doubt(router: RunningRouter) -> None:
    """Its receiver has it, and may have done with it what it is for; scripts are told the same."""
    with closing(BlockingConnection(router.url, timeout=LONG)) as connection:
        connection.create_receiver("tool.deaf", credit=2)
        until(lambda: "tool.deaf" in tool(router, "stat", "--addresses").stdout, "the receiver")
        sent = tool(router, "send", "tool.deaf", "x", "--timeout", "3", "--json")
    found = json.loads(sent.stdout)
    assert f"Error: {found.pop('error')}\n" in sent.stderr
    assert found == {"accepted": 0, "notAccepted": 0, "unknown": 1, "notSent": 0}
    assert sent.returncode == 1
    assert "its outcome is unknown" in sent.stderr


def test_a_message_that_cannot_be_printed_is_not_taken(router: RunningRouter) -> None:
    """Nobody has seen it: its sender learns that, and may send it to somebody else."""
    with Path("/dev/full").open("w") as full:
        command = [ROUTERD, "receive", "tool.unseen", "--bus", router.url]
        receiving = subprocess.Popen(command, stdout=full, stderr=subprocess.PIPE, text=True)
    until(lambda: "tool.unseen" in tool(router, "stat", "--addresses").stdout, "the receiver")
    sent = tool(router, "send", "tool.unseen", "x")
    assert (sent.returncode, sent.stderr.partition(";")[0]) == (1, "tool.unseen: released")
    assert "the output cannot be written" in receiving.communicate(timeout=LONG)[1]
    assert receiving.returncode == 1


def test_a_change_whose_answer_cannot_be_printed_is_made(router: RunningRouter) -> None:
    with Path("/dev/full").open("w") as full:
        command = [ROUTERD, "manage", "create", "--type", "address", "--name", "tool.made", "--bus", router.url]
        made = subprocess.run(
            [*command, "prefix=tool.made"], check=False, stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert (made.returncode, "has made the change (create)" in made.stderr) == (1, True)
    assert tool(router, "manage", "delete", "--type", "address", "--name", "tool.made").returncode == 0


@pytest.mark.parametrize("asked", ["get-operations", "get-schema"])
def test_a_reader_that_goes_away_is_no_error(router: RunningRouter, asked: str) -> None:
    """Whether or not all was printed when it went: what fits into the pipe is, a longer text is not."""
    listing = begun(router, "manage", asked)
    assert listing.stdout is not None
    assert listing.stderr is not None
    listing.stdout.read(1)
    listing.stdout.close()
    assert (listing.wait(LONG), listing.stderr.read()) == (0, "")


def test_the_tool_follows_the_log(router: RunningRouter) -> None:
    """Old lines, then new ones; each once."""
    following = begun(router, "log", "--follow", "--limit", "1")
    assert following.stdout is not None
    following.stdout.readline()
    name = f"tool.{time.monotonic_ns()}"
    with socket.create_connection(router.address) as client:
        client.sendall(AMQP_HEADER + frame(0, described(OPEN, name)))
        lines = iter(following.stdout.readline, "")
        assert f"'{name}'" in next(line for line in lines if "opened" in line)
    until(lambda: name in tool(router, "log").stdout, "the same line")
    following.kill()
    seen, _ = following.communicate(timeout=LONG)
    assert name not in seen
    assert tool(router, "log", "--level", "critical").stdout == ""
