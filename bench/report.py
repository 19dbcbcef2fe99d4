"""Medians of repeated runs, and tables that show them."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from statistics import median

from rich.table import Table

from bench.results import Outcome, Run
from bench.scenarios import SCENARIOS, Scenario

MIB = 2**20
REASON_MAX = 120  # characters of an error in a cell
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}


def metrics(run: Run) -> dict[str, float]:
    """Return all figures of a run by name: CPU in µs per message, latencies in µs, memory in MB."""
    figures = {
        "rate": run.rate,
        "router_cpu": run.total_cpu,
        "clients_cpu": run.clients_cpu,
        "relative_cost": run.relative_cost,
        "memory_mb": run.total_memory / MIB if run.total_memory is not None else None,
        "bad": float(run.bad),
    }
    found = {name: value for name, value in figures.items() if value is not None}
    found |= by_kind(run.router_cpu)
    found |= {f"memory_mb:{role}": value / MIB for role, value in run.memory.items()}
    if run.latency_us is not None:
        found |= {"p50": run.latency_us.p50, "p99": run.latency_us.p99, "p999": run.latency_us.p999}
    return found | run.extra


def medians(runs: Sequence[Run]) -> dict[str, float]:
    """Return the median of every figure over the runs that have it."""
    every = [metrics(run) for run in runs]
    names = dict.fromkeys(name for one in every for name in one)
    return {name: median(one[name] for one in every if name in one) for name in names}


def missed(scenario: Scenario, figures: Mapping[str, float]) -> list[str]:
    """Return the missed goals in words."""
    return [
        f"{name} {figures[name]:.2f} > {limit:g}"
        for name, limit in scenario.goals.items()
        if name in figures and figures[name] > limit
    ]


def _number(name: str, form: str = "{:.2f}") -> Callable[[Mapping[str, float]], str]:
    return lambda figures: form.format(figures[name]) if name in figures else ""


def by_kind(router_cpu: Mapping[str, float]) -> dict[str, float]:
    """Return CPU by kind of process and rank, because the busy worker changes from run to run."""
    kinds: dict[str, list[float]] = {}
    for role, value in router_cpu.items():
        kinds.setdefault(role.rstrip(" 0123456789"), []).append(value)
    return {
        f"cpu:{kind}" if rank == 1 else f"cpu:{kind} {rank}": value
        for kind, values in kinds.items()
        for rank, value in enumerate(sorted(values, reverse=True), start=1)
    }


def _processes(figures: Mapping[str, float]) -> str:
    """Return the CPU of each process that spent enough for a digit: ``core 0.25, worker 0.70 + 0.60``."""
    kinds: dict[str, list[float]] = {}
    for name, value in figures.items():
        if name.startswith("cpu:"):
            kinds.setdefault(name[4:].rstrip(" 0123456789"), []).append(value)
    shown = (
        f"{kind} " + " + ".join(f"{value:.2f}" for value in values)
        for kind, values in kinds.items()
        if max(values) >= 0.005
    )
    return ", ".join(shown)


def _latency(figures: Mapping[str, float]) -> str:
    if "p50" not in figures:
        return ""
    return " / ".join(f"{figures[name]:.0f}" for name in ("p50", "p99", "p999"))


_REMARKS = {
    "p50_ratio": "p50 is {:.2f} of direct",
    "direct_p50": "direct p50 {:.0f}",
    "direct_p99": "p99 {:.0f}",
    "large_s": "accepted after {:.2f} s",
    "sender_cpu_s": "sender's CPU {:.2f} s",
    "sender_growth": "{:.1f} times that of 10 MB",
    "connections": "{:,.0f} connections",
    "kb_per_connection": "{:.1f} KB each",
    "rate_kept": "{:.0%} of the rate alone",
    "grown_mb": "{:+.1f} MB",
    "rows": "{:,.0f} links",
    "query_s": "{:.2f} s a query",
    "query_core_ms": "{:.1f} ms of it in the core's thread",
    "alone_p999": "p99.9 alone {:.0f}",
    "strangers_p999": "beside strangers {:.0f}",
    "one_router_us": "one router {:.2f} µs",
    "hop_us": "each further one {:.2f}",
    "one_router_p50": "one in flight: p50 {:.0f} µs",
    "hop_p50": "each further one {:+.0f}",
    "bad": "{:.0f} bad",
}


def _remarks(figures: Mapping[str, float]) -> str:
    """Return the figures that only some scenarios have."""
    shown = (form.format(figures[name]) for name, form in _REMARKS.items() if figures.get(name))
    return ", ".join(shown)


COLUMNS: tuple[tuple[str, Callable[[Mapping[str, float]], str]], ...] = (
    ("messages/s", _number("rate", "{:,.0f}")),
    ("router µs/msg", _number("router_cpu")),
    ("of it", _processes),
    ("clients µs/msg", _number("clients_cpu")),
    ("relative cost", _number("relative_cost")),
    ("p50/p99/p99.9 µs", _latency),
    ("PSS MB", _number("memory_mb", "{:.0f}")),
    ("remarks", _remarks),
)
HEADINGS = ("scenario", "router", *(name for name, _ in COLUMNS), "goals")


def row(outcome: Outcome) -> list[str]:
    """Return one line of the table, a cell per heading."""
    scenario = BY_NAME[outcome.scenario]
    if outcome.error is not None:
        cells = [""] * len(COLUMNS)
        cells[-1] = f"failed: {textwrap.shorten(outcome.error, REASON_MAX, placeholder=' …')}"
        return [scenario.title, outcome.target, *cells, ""]
    figures = medians(outcome.runs)
    if outcome.client != "proton":  # without the engine in the clients the quotient means nothing
        figures.pop("relative_cost", None)
    verdict = ""
    if outcome.target == "routerd" and scenario.goals:
        verdict = "; ".join(missed(scenario, figures)) or "met"
    return [scenario.title, outcome.target, *(show(figures) for _, show in COLUMNS), verdict]


def rich_table(outcomes: Sequence[Outcome], title: str) -> Table:
    """Return the table for a terminal."""
    table = Table(title=title, title_justify="left")
    for heading in HEADINGS:
        text = heading in ("scenario", "router", "of it", "remarks", "goals")
        table.add_column(heading, justify="left" if text else "right", no_wrap=heading in ("scenario", "router"))
    for outcome in outcomes:
        table.add_row(*row(outcome))
    return table


def markdown_table(outcomes: Sequence[Outcome]) -> str:
    """Return the same table for a page such as the README."""
    lines = [HEADINGS, ["---"] * len(HEADINGS), *(row(outcome) for outcome in outcomes)]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
