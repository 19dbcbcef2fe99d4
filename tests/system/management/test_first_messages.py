"""The commands that send, receive, measure and show the log, without a program of the user's own."""

import json
import socket
import time

from tests.support.clients.wire import AMQP_HEADER, OPEN, described, frame
from tests.support.running import LONG, RunningRouter, until
from tests.support.tool import begun, tool


def test_the_tool_sends_and_receives(router: RunningRouter) -> None:
    """First messages, round trips, and a first figure, as a user runs them; who gets no outcome is told."""
    receiving = begun(router, "receive", "tool.first", "--count", "3", "--json")
    until(lambda: "tool.first" in tool(router, "stat", "--addresses").stdout, "the receiver")
    sent = tool(router, "send", "tool.first", "hello", "-", "--property", "a=b", given=b"x\ny\n")
    assert (sent.returncode, sent.stdout) == (0, "3 accepted\n")
    rows = [json.loads(line) for line in receiving.communicate(timeout=LONG)[0].splitlines()]
    assert (receiving.returncode, [row["body"] for row in rows]) == (0, ["hello", "x", "y"])
    assert all(row["properties"] == {"a": "b"} for row in rows)
    for wrong in (["send", "tool.first", "-"], ["send", b"tool.\xff", "x"], ["receive", b"\xff"], ["bench", b"\xff"]):
        refused = tool(router, *wrong, given=b"\xff\n")
        assert (refused.returncode in (1, 2), "not UTF-8" in refused.stderr) == (True, True), wrong
    alone = tool(router, "send", "tool.nobody", "x", "--timeout", "0.5")
    assert (alone.returncode, "no outcome" in alone.stderr or "an outcome" in alone.stderr) == (1, True)
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
