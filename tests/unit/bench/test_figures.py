"""How the benchmark computes what it shows."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from array import array
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from bench.clients import ClientSpec, summary, worst
from bench.large import figures as large_figures
from bench.line import figures as line_figures
from bench.processes import ProcessGoneError, cpu_seconds, parse_pss, processes, pss_bytes, role_of, unique
from bench.queries import Asking, figures
from bench.recording import Pair, without_recorder
from bench.report import HEADINGS, by_kind, markdown_table, medians, missed, row
from bench.results import ClientResult, Latency, Outcome, Run
from bench.run import main, measure, plan
from bench.scenarios import SCENARIOS, Scenario, Transfer, scaled, slow_figures
from bench.targets import BASELINE, DIRECT, ROUTERD, BenchError, Running, Target, installed, parse_peer

ONE_TO_ONE = SCENARIOS[0]


def result(mode: str, *, n: int = 100, cpu: float = 1.0, seconds: float = 2.0) -> ClientResult:
    return ClientResult(
        mode=mode, n=n, bad=0, seconds=seconds, cpu_us_per_message=cpu, rate=n / seconds, latency_us=None
    )


def test_percentiles_are_nearest_ranks() -> None:
    """Of 1..1000 µs, p50 is the 500th value, p99.9 the last but one."""
    nanoseconds = array("Q", [micro * 1000 for micro in range(1000, 0, -1)])
    assert Latency.of(nanoseconds.tobytes()) == Latency(p50=500.0, p99=990.0, p999=999.0)


def test_no_samples_have_no_percentiles() -> None:
    """A transfer of messages too short for a stamp has no latency."""
    assert Latency.of(b"") is None


def test_one_sample_is_every_percentile() -> None:
    """The ranks stay inside."""
    assert Latency.of(array("Q", [7000]).tobytes()) == Latency(p50=7.0, p99=7.0, p999=7.0)


def test_relative_cost_is_router_by_both_clients() -> None:
    """1.5 µs in all router processes beside 0.6 + 0.4 µs in the clients is 1.5."""
    run = summary([result("send", cpu=0.6), result("recv", cpu=0.4)], {"core": 30e-6, "worker 0": 120e-6}, {}, 9.0)
    assert run.total_cpu == pytest.approx(1.5)
    assert run.relative_cost == pytest.approx(1.5)
    assert run.rate == pytest.approx(50.0)
    assert (run.senders_cpu, run.senders_s) == (pytest.approx(0.6), 2.0)


def test_several_pairs_count_all_messages_over_the_longest_time() -> None:
    """Two pairs of 100 messages, the slower in 4 s: 50 a second."""
    pairs = [result("send"), result("send"), result("recv", seconds=1.0), result("recv", seconds=4.0)]
    run = summary(pairs, {}, {}, 9.0)
    assert (run.messages, run.rate) == (200, 50.0)
    assert run.clients_cpu == pytest.approx(2.0)


def test_a_transfer_without_messages_is_an_error() -> None:
    """Nothing is divided by nothing."""
    with pytest.raises(BenchError, match="no message"):
        summary([result("send"), result("recv", n=0)], {}, {}, 1.0)


def test_worst_takes_each_percentile_by_itself() -> None:
    """Pairs are not averaged."""
    assert worst([Latency(1, 9, 9), Latency(2, 3, 10)]) == Latency(2, 9, 10)
    assert worst([]) is None


def test_run_without_router_has_no_relative_cost() -> None:
    """A direct transfer is not a router that costs nothing."""
    run = Run(messages=1, clients_cpu=1.0)
    assert run.total_cpu is None
    assert run.relative_cost is None


def test_medians_are_of_each_figure() -> None:
    """A figure that is missing in one run counts where it is there."""
    runs = [
        Run(rate=1.0, router_cpu={"core": 3.0}),
        Run(rate=5.0, router_cpu={"core": 1.0, "worker 0": 7.0}),
        Run(rate=2.0, router_cpu={"core": 2.0}),
    ]
    figures = medians(runs)
    assert (figures["rate"], figures["cpu:core"], figures["cpu:worker"]) == (2.0, 2.0, 7.0)


def test_goals_are_upper_limits() -> None:
    """At the limit is met; above it is named."""
    assert missed(ONE_TO_ONE, {"relative_cost": 1.4, "cpu:core": 0.1}) == []
    assert missed(ONE_TO_ONE, {"relative_cost": 1.41, "cpu:core": 0.1}) == ["relative_cost 1.41 > 1.4"]


def test_workers_are_ranked() -> None:
    """Medians compare the busiest with the busiest, whichever number it had."""
    assert by_kind({"core": 0.2, "worker 0": 0.5, "worker 11": 0.75}) == {
        "cpu:core": 0.2,
        "cpu:worker": 0.75,
        "cpu:worker 2": 0.5,
    }


def test_rows_fit_the_headings() -> None:
    """A measured and a failed line have a cell for every column."""
    spent = {"supervisor": 0.0, "core": 0.3, "worker 0": 0.2, "worker 1": 0.5}
    run = Run(messages=1, rate=1.0, router_cpu=spent, clients_cpu=2.0, latency_us=Latency(1, 2, 3))
    done = row(Outcome(scenario="1-1", target="routerd", client="proton", runs=[run]))
    failed = row(Outcome(scenario="1-1", target="routerd", client="proton", error="no | luck\nand" + 99 * " much"))
    assert len(done) == len(failed) == len(HEADINGS)
    assert done[-1] == "met"
    assert "core 0.30, worker 0.50 + 0.20" in done
    (reason,) = [cell for cell in failed if cell.startswith("failed: no | luck and much")]
    assert len(reason) < 150


def test_no_relative_cost_beside_the_hand_made_client() -> None:
    """It has another engine, so the floor is not 1."""
    run = Run(messages=1, router_cpu={"core": 1.0}, clients_cpu=0.25)
    made = {kind: Outcome(scenario="4-4", target="routerd", client=kind, runs=[run]) for kind in ("wire", "proton")}
    rows = {kind: row(outcome) for kind, outcome in made.items()}
    assert "4.00" in rows["proton"]
    assert rows["proton"][-1] == "relative_cost 4.00 > 1.5"
    assert "4.00" not in rows["wire"]
    assert rows["wire"][-1] == "met"


def test_markdown_has_a_line_per_outcome() -> None:
    """Heading, rule, one line."""
    table = markdown_table([Outcome(scenario="idle", target="a|b", client="proton", runs=[Run()])])
    lines = table.splitlines()
    assert len(lines) == 3
    assert all(line.replace("\\|", "").count("|") == len(HEADINGS) + 1 for line in lines)


@pytest.mark.parametrize(
    ("command", "role"),
    [
        (["/v/bin/python", "-P", "-m", "routerd.process", "core", "--control-fd", "5"], "core"),
        (["/v/bin/python", "-P", "-m", "routerd.process", "worker", "12", "--control-fd", "5"], "worker 12"),
        (["/v/bin/python", "/v/bin/routerd", "run", "--config", "x"], "supervisor"),
        (["/v/bin/python", "-m", "routerd", "run"], "supervisor"),
        (["/usr/sbin/qdrouterd", "-c", "x"], "qdrouterd"),
        ([], "?"),
    ],
)
def test_role_is_read_from_the_command_line(command: list[str], role: str) -> None:
    """Operators and this benchmark tell processes apart in the same way."""
    assert role_of(command) == role


def test_second_process_of_a_role_gets_a_number() -> None:
    """No process is lost from the sum."""
    assert unique("x", {"x": 1, "x 2": 2}) == "x 3"


def test_pss_is_in_bytes() -> None:
    """The kernel's kB are KiB; ``SwapPss`` and ``Pss_Anon`` are other figures."""
    assert parse_pss("5-7 ---p [rollup]\nRss: 9 kB\nPss_Anon: 3 kB\nPss:   12 kB\nSwapPss: 7 kB\n") == 12 * 1024
    with pytest.raises(ValueError, match="Pss"):
        parse_pss("Rss: 9 kB\n")


def test_a_child_that_has_ended_is_no_process() -> None:
    """Not even before its parent has asked how."""
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE
        assert child.pid not in processes(os.getpid()).values()


def test_own_process_can_be_sampled() -> None:
    """The CPU clock of a pid is that process's own clock."""
    before = time.process_time()
    sampled = cpu_seconds(os.getpid())
    assert before <= sampled <= time.process_time()
    assert pss_bytes(os.getpid()) > 2**20
    assert os.getpid() in processes(os.getpid()).values()


def test_a_process_that_is_gone_says_so() -> None:
    """A router that dies under load is an error, not a low figure."""
    gone = int(Path("/proc/sys/kernel/pid_max").read_text(encoding="ascii")) + 1
    with pytest.raises(ProcessGoneError):
        cpu_seconds(gone)
    with pytest.raises(ProcessGoneError):
        pss_bytes(gone)


def test_peer_without_placeholder_gets_a_configuration() -> None:
    """qdrouterd is named by its path alone."""
    assert parse_peer("qd=/usr/sbin/qdrouterd") == Target("qd", ("/usr/sbin/qdrouterd", "-c", "{config}"))
    assert parse_peer("own=x --port {port}").command == ("x", "--port", "{port}")


@pytest.mark.parametrize("text", ["qdrouterd", "=x", "x=", ""])
def test_malformed_peer_is_refused(text: str) -> None:
    """The message says what was expected."""
    with pytest.raises(BenchError, match="NAME=COMMAND"):
        parse_peer(text)


def test_comparisons_run_only_where_asked() -> None:
    """Direct and plain Python are measured in one scenario, peers wherever not only routerd can do it."""
    peer = Target("peer", ("x",))
    planned = {
        scenario.name: [target.name for target in targets]
        for scenario, targets in plan(SCENARIOS, [ROUTERD, DIRECT, BASELINE, peer])
    }
    assert planned["1-1"] == ["routerd", "direct", "python", "peer"]
    assert planned["idle"] == ["routerd", "peer"]
    assert planned["rmr-64"] == ["routerd", "direct"]
    assert list(planned) == [scenario.name for scenario in SCENARIOS]
    assert "rmr-64" not in {scenario.name for scenario, _ in plan(SCENARIOS, [peer])}


class Unlucky:
    """A measurement that works once."""

    def __init__(self) -> None:
        self.done = 0

    def run(self, running: Running, kind: str, scale: float) -> Run:
        self.done += 1
        if self.done == 2:
            raise KeyError("core")
        return Run(messages=self.done)


def test_what_one_target_cannot_others_can(capsys: pytest.CaptureFixture[str]) -> None:
    """Each error, also one that nobody thought of, ends the turns of its target alone, and says why."""
    scenario = Scenario(name="x", title="x", measurement=Unlucky())
    targets = [DIRECT, Target("none", ("/no/such/router",)), Target("other")]
    direct, none, other = measure(scenario, targets, client="proton", repeat=2, scale=1.0, settings={})
    assert (direct.target, len(direct.runs), direct.error) == ("direct", 2, None)
    assert (none.runs, none.error) == ([], "/no/such/router does not start: No such file or directory")
    assert (other.runs, other.error) == ([], "KeyError: 'core'")
    assert "Traceback" in capsys.readouterr().err


def test_an_interrupt_keeps_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table is printed, and the exit status says that something is missing."""

    def measured(scenario: Scenario, targets: list[Target], **_: object) -> list[Outcome]:
        if scenario.name != "idle":
            raise KeyboardInterrupt
        return [
            Outcome(scenario=scenario.name, target=target.name, client="proton", runs=[Run()]) for target in targets
        ]

    monkeypatch.setattr("bench.run.measure", measured)
    monkeypatch.setattr("bench.run.raise_descriptor_limit", lambda: None)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    asked = ["--markdown", "--only", "routerd", "--scenario", "idle", "--scenario", "connections"]
    result = CliRunner().invoke(main, asked)
    assert result.exit_code == 1
    assert "| idle router | routerd |" in result.output
    assert "idle connections" not in result.stdout
    assert CliRunner().invoke(main, asked[:-2]).exit_code == 0


def test_installed_routers_are_peers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those on PATH, but not routerd by the name of another."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for file in (ours / "routerd", ours / "qdrouterd", theirs / "skrouterd"):
        file.parent.mkdir(exist_ok=True)
        file.touch(mode=0o755)
    monkeypatch.setenv("PATH", f"{ours}:{theirs}")
    assert installed() == [Target("skrouterd", (str(theirs / "skrouterd"), "-c", "{config}"))]


def test_commands_carry_every_option() -> None:
    """Both clients are told the same."""
    spec = ClientSpec(mode="recv", port=9, address="a", count=7, presettled=True, credit=3)
    proton, wire = spec.command("proton"), spec.command("wire")
    assert "--presettled" in proton
    assert "--listen" not in proton
    assert proton[proton.index("--count") + 1] == "7"
    assert "--tls" in ClientSpec(mode="recv", port=9, address="a", tls=True).command("proton")
    assert wire[1:] == ["recv", "9", "a", "7", "100", "step", "credit=3", "links=1", "presettled"]


def test_scaled_counts_stay_positive() -> None:
    """A quick run of a short scenario still sends something."""
    assert scaled(300, 0.001) == 1
    assert scaled(300, 0.1) == 30


def test_slow_receiver_figures() -> None:
    """Half the rate and one more MiB are seen."""
    alone, beside = Run(rate=100.0, memory={"core": 2**20}), Run(rate=50.0, memory={"core": 2**21})
    assert slow_figures(alone, beside) == {"alone_rate": 100.0, "rate_kept": 0.5, "grown_mb": 1.0}


def test_query_figures() -> None:
    """Twice the messages would have taken twice the CPU, and a stranger's delay is not theirs."""
    alone, disturbed, beside = (
        Run(messages=messages, latency_us=Latency(p50=1.0, p99=2.0, p999=p999))
        for messages, p999 in ((100, 300.0), (100, 3000.0), (200, 3500.0))
    )
    asking = Asking("amqp://127.0.0.1:1")
    asking.queries, asking.rows, asking.seconds = 4, 10, 2.0
    extra = figures(alone, disturbed, beside, (1.0, 2.004), asking).extra
    assert (extra["rows"], extra["query_s"], round(extra["query_core_ms"], 6)) == (10, 0.5, 1.0)
    assert (extra["alone_p999"], extra["strangers_p999"], extra["query_delay_us"]) == (300, 3000, 500)


def test_line_figures() -> None:
    """What two further routers cost, for each; the run is that of the whole line."""
    near, far = (Run(latency_us=Latency(p50=p50, p99=0.0, p999=0.0)) for p50 in (50.0, 110.0))
    run = line_figures(Run(router_cpu={"core": 2.0}), Run(router_cpu={"core": 7.0}), near, far, 2)
    assert run.total_cpu == 7.0
    told = {"one_router_us": 2.0, "hop_us": 2.5, "one_router_p50": 50.0, "hop_p50": 30.0}
    assert run.extra == told
    with pytest.raises(BenchError, match="no latency"):
        line_figures(near, far, Run(), far, 1)


def test_large_message_figures() -> None:
    """Five times the size for seven times the CPU; seconds are the sender's."""
    run = large_figures(Run(senders_cpu=0.2e6), Run(senders_cpu=1.4e6, senders_s=2.5))
    assert run.extra == {"large_s": 2.5, "sender_cpu_s": 1.4, "sender_growth": pytest.approx(7.0)}
    with pytest.raises(BenchError, match="no CPU time"):
        large_figures(Run(), run)


def test_scenario_names_are_unique() -> None:
    """Each can be chosen by its name."""
    assert len({scenario.name for scenario in SCENARIOS}) == len(SCENARIOS)
    assert isinstance(ONE_TO_ONE.measurement, Transfer)


def test_the_flow_log_costs_what_all_but_the_recorder_use() -> None:
    """In the same pair of runs, message by message."""
    off = Run(messages=10, router_cpu={"core": 0.5, "worker 0": 1.5})
    on = Run(messages=10, router_cpu={"core": 0.6, "worker 0": 1.5, "recorder": 1.0})
    assert without_recorder(on.router_cpu) == pytest.approx(2.1)
    assert Pair(off, on, {}).ratio == pytest.approx(1.05)
