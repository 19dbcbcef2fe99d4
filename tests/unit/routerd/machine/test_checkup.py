"""What hurts a router on a machine, read from a tree of files such as the kernel shows."""

from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from routerd.config import load
from routerd.config.entities.router import Router
from routerd.machine.checkup import Finding, Machine, Verdict, checkup, cpu_list

FOUR = {0, 1, 2, 3}
CPU, NODE = "sys/devices/system/cpu/cpu", "sys/devices/system/node/node"
CLOCK = "sys/devices/system/clocksource/clocksource0/current_clocksource"
PINNED = Router(workers=2, core_cpu=0, worker_cpus=(1,))


def findings(root: Path, files: Mapping[str, str], router: Router | None = None) -> dict[str, Finding]:
    """What is found on a machine of four CPUs with these files, by name."""
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f"{text}\n")
    return {one.name: one for one in checkup(router or Router(workers=2), Machine(root), FOUR)}


def test_a_machine_that_tells_nothing_is_no_trouble(tmp_path: Path) -> None:
    found = findings(tmp_path, {})
    of_this_machine = {"shared memory", "descriptors", "control group", "CPUs"}
    assert all(one.verdict is Verdict.OK for name, one in found.items() if name not in of_this_machine)


@pytest.mark.parametrize(
    ("name", "files", "remedy"),
    [
        ("CPU governor", {f"{CPU}2/cpufreq/scaling_governor": "powersave"}, "performance"),
        ("SMT", {f"{CPU}{cpu}/topology/thread_siblings_list": "0-3" for cpu in FOUR}, "lower `workers` to 1"),
        ("NUMA", {f"{NODE}0/cpulist": "0-1", f"{NODE}1/cpulist": "2-3,8"}, "one node"),
        ("stolen time", {"proc/stat": "cpu  100 0 0 800 0 0 0 100 0 0"}, "CPUs of its own"),
        ("clock source", {CLOCK: "hpet"}, "TSC"),
        ("overcommit", {"proc/sys/vm/overcommit_memory": "2"}, "overcommit_memory=0"),
        ("swap", {"proc/swaps": "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2"}, "MemorySwapMax=0"),
        ("backlog", {"proc/sys/net/core/somaxconn": "128"}, "somaxconn=1024"),
    ],
)
def test_what_hurts_has_a_remedy(tmp_path: Path, name: str, files: Mapping[str, str], remedy: str) -> None:
    found = findings(tmp_path, files)
    assert (found[name].verdict, remedy in found[name].remedy) == (Verdict.WARNING, True)


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("CPU governor", {f"{CPU}{cpu}/cpufreq/scaling_governor": "performance" for cpu in FOUR}),
        ("SMT", {f"{CPU}{cpu}/topology/thread_siblings_list": f"{cpu},{cpu + 4}" for cpu in FOUR}),
        ("NUMA", {f"{NODE}0/cpulist": "0-3", f"{NODE}1/cpulist": "4-7"}),
        ("stolen time", {"proc/stat": "cpu  100 0 0 890 0 0 0 10 0 0"}),
        ("clock source", {CLOCK: "kvm-clock"}),
        ("overcommit", {"proc/sys/vm/overcommit_memory": "1"}),
        ("swap", {"proc/swaps": "Filename Type Size Used Priority"}),
        ("backlog", {"proc/sys/net/core/somaxconn": "4096"}),
    ],
)
def test_what_does_not_hurt_has_none(tmp_path: Path, name: str, files: Mapping[str, str]) -> None:
    assert (findings(tmp_path, files)[name].verdict, findings(tmp_path, files)[name].remedy) == (Verdict.OK, "")


def test_files_with_other_content_are_no_trouble(tmp_path: Path) -> None:
    """Containers put files of their own in the place of the kernel's."""
    odd = ("x-y", "-", "1-", "cpu a b c d e f g h", "Filename\n\n \n", "\u0663", "9" * 5000, "\0")
    for text in odd:
        files = {f"{NODE}{node}/cpulist": text for node in (0, 1)}
        files |= {f"{CPU}{cpu}/topology/thread_siblings_list": text for cpu in FOUR}
        files |= dict.fromkeys(("proc/stat", "proc/swaps", "proc/sys/vm/overcommit_memory"), text)
        assert {"NUMA", "SMT", "stolen time", "swap", "overcommit"} <= findings(tmp_path, files).keys()


def test_pinned_processes_are_looked_at(tmp_path: Path) -> None:
    """Two of them on one core are told; all of them on one node are right."""
    files = {f"{CPU}{cpu}/topology/thread_siblings_list": "0-1" if cpu < 2 else "2-3" for cpu in FOUR}
    files |= {f"{NODE}0/cpulist": "0-1", f"{NODE}1/cpulist": "2-3"}
    found = findings(tmp_path, files, PINNED)
    assert (found["SMT"].verdict, found["NUMA"].verdict) == (Verdict.WARNING, Verdict.OK)
    apart = findings(tmp_path, files, msgspec.structs.replace(PINNED, worker_cpus=(2,)))
    assert (apart["SMT"].verdict, apart["NUMA"].verdict) == (Verdict.OK, Verdict.WARNING)


def test_arenas_that_do_not_fit_are_an_error(tmp_path: Path) -> None:
    found = findings(tmp_path, {}, Router(workers=64, arena_size=65536))["shared memory"]
    assert (found.verdict, "lower `workers`, `arenaSize` or `flightRecords`" in found.remedy) == (Verdict.ERROR, True)


def test_more_workers_than_cpus_are_told(tmp_path: Path) -> None:
    assert findings(tmp_path, {}, Router(workers=3))["CPUs"].verdict is Verdict.OK
    assert "lower `workers` to 3" in findings(tmp_path, {}, Router(workers=4))["CPUs"].remedy


def test_lists_of_cpus() -> None:
    """As cpuset(7) writes them."""
    assert cpu_list("0-2,5,7-8") == {0, 1, 2, 5, 7, 8}
    assert cpu_list("") == set()
    assert cpu_list("x-y,3,1-") == {3}


@pytest.mark.parametrize(
    ("workers", "cpus", "verdict", "told"),
    [
        (2, 3, Verdict.OK, "3 usable, 2 workers and the core"),
        (2, 2, Verdict.OK, "2 usable, 2 workers and the core take turns; so one worker serves while the other"),
        (2, 1, Verdict.WARNING, "lower `workers` to 1 (`auto`), or give the router more CPUs"),
        (1, 1, Verdict.WARNING, "give the router more CPUs"),
        (3, 3, Verdict.WARNING, "lower `workers` to 2 (`auto`), or give the router more CPUs"),
    ],
)
def test_more_processes_than_cpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int, cpus: int, verdict: Verdict, told: str
) -> None:
    """Two workers are the default for two CPUs, too: the reason is in the finding."""
    monkeypatch.setattr("routerd.machine.checkup.cpu_limit", lambda: None)
    found = next(checkup(Router(workers=workers), Machine(tmp_path), range(cpus)))
    assert found.verdict is verdict
    assert (found.remedy or found.found).startswith(told)


@pytest.mark.parametrize("sample", ["routerd.conf", "image.conf"])
def test_the_sample_configurations_fit_a_small_machine(tmp_path: Path, sample: str) -> None:
    """`routerd doctor` has nothing against the number of their workers on two CPUs."""
    router = load(Path(__file__).parents[4] / "package" / sample).router
    assert router.workers == Router().workers == 2
    assert next(checkup(router, Machine(tmp_path), range(2))).verdict is Verdict.OK
