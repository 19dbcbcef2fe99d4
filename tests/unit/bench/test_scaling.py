"""What the benchmark of many workers starts where, and what its table says."""

import click
import pytest

from bench.results import Latency, Run
from bench.scaling import HEADINGS, Layout, markdown, numbers, row

CPUS = (2, 3, 5, 7)


def test_pinned_processes_have_cpus_of_their_own_and_clients_the_rest() -> None:
    layout = Layout(2, pinned=True)
    assert layout.settings(CPUS) == {"workerThreads": "2", "coreCpu": "2", "workerCpus": "3,5"}
    assert layout.clients(CPUS) == {7}


def test_clients_share_all_cpus_where_none_is_left() -> None:
    assert Layout(3, pinned=True).clients(CPUS) == set(CPUS)


def test_the_kernel_chooses_where_nothing_is_pinned() -> None:
    layout = Layout(9, pinned=False)
    assert layout.settings(CPUS) == {"workerThreads": "9"}
    assert layout.clients(CPUS) == set(CPUS)


@pytest.mark.parametrize(("workers", "fits"), [(3, True), (4, False)])
def test_a_pinned_router_needs_a_cpu_for_each_process(workers: int, *, fits: bool) -> None:
    assert Layout(workers, pinned=True).fits(CPUS) is fits


def test_a_process_is_as_busy_as_its_time_per_message_times_the_rate() -> None:
    cpu = {"core": 0.1, "worker 0": 0.2, "worker 1": 0.25}
    run = Run(messages=10, rate=2_000_000, router_cpu=cpu, clients_cpu=0.3, latency_us=Latency(p50=1, p99=2, p999=3))
    ping = Run(messages=10, latency_us=Latency(p50=20, p99=40, p999=60))
    line = dict(zip(HEADINGS, row(Layout(2, pinned=False), [run], [ping]), strict=True))
    assert (line["core busy"], line["busiest worker"]) == ("20%", "50%")
    assert (line["p50/p99/p99.9 µs"], line["one in flight p50/p99 µs"]) == ("1 / 2 / 3", "20 / 40")
    assert markdown([list(line.values())]).count("\n") == 2


@pytest.mark.parametrize("text", ["", "0", "1,-2", "1;2", "two"])
def test_numbers_of_workers_that_make_no_sense_are_refused(text: str) -> None:
    context = click.Context(click.Command("scaling"))
    with pytest.raises(click.BadParameter, match="numbers of workers"):
        numbers(context, click.Option(["--workers"]), text)
