"""``python -m tests.fuzz.run MINUTES [TARGET...]``: fuzz each target by coverage for so many minutes (make fuzz).

Native targets are built with clang's libFuzzer, and so is the AMQP engine for them; Python targets run under Atheris.
The seed is from the clock. The exit status is 1 if an input made a target fail. ``--keep`` adds what was found to the
corpora, minimised.
"""

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from tests.fuzz.catalogue import ROOT, SANITIZERS, TARGETS, Target

BUILD = ROOT / "build" / "fuzz"
FOUND = BUILD / "found"
HEAD = f"{'target':<20}{'CPU minutes':>12}{'inputs':>13}{'inputs/s':>10}{'edges':>7}  finds"
PER_INPUT_S = 20
MEMORY_MB = 3000


@dataclass
class Outcome:
    """What a run of a target came to."""

    inputs: int
    seconds: float  # of a CPU: others may have had it meanwhile
    edges: int
    finds: list[Path]


def instrumented() -> Path:
    """The AMQP engine, compiled so that libFuzzer sees where its code goes; once."""
    folder = BUILD / f"engine-{version('python-qpid-proton')}"
    if not folder.exists():
        made = folder.with_suffix(".new")
        shutil.rmtree(made, ignore_errors=True)
        subprocess.run([ROOT / ".ci" / "engine", "fuzz", sys.executable, made], check=True)
        made.rename(folder)
    (file,) = folder.glob("cproton_ffi*.so")
    return file


def command(target: Target) -> list[str]:
    """The program that fuzzes a target, built anew."""
    if not target.native:
        return [sys.executable, "-m", "tests.fuzz.guided", target.name]
    program = BUILD / target.name / "program"
    program.parent.mkdir(parents=True, exist_ok=True)
    with_engine = instrumented() if target.engine else None
    target.build("clang", f"fuzzer,{SANITIZERS}", program, "-O1", "-rdynamic", with_engine=with_engine)
    return [str(program)]


def environment(target: Target) -> dict[str, str]:
    more = target.prepare(BUILD / target.name / "material")
    return os.environ | more | {"UBSAN_OPTIONS": "print_stacktrace=1", "ASAN_OPTIONS": "detect_leaks=1"}


def cpu_seconds() -> float:
    """Return what all programs have taken that this process waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def kept(target: Target) -> set[Path]:
    """Return the finds of a target; another run may add those of others meanwhile."""
    return set(FOUND.glob(f"{target.name}-*"))


def fuzz(target: Target, program: list[str], seconds: float, seed: int) -> Outcome:
    """Fuzz a target; what libFuzzer prints goes to a file."""
    folder = BUILD / target.name
    own, known, log = folder / "corpus", folder / "known", folder / "log"
    own.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(known, ignore_errors=True)
    target.unpack(known)
    before = kept(target)
    options = [f"-max_total_time={max(1, int(seconds))}", f"-seed={seed}", f"-max_len={target.longest}"]
    options += [f"-timeout={PER_INPUT_S}", f"-report_slow_units={PER_INPUT_S}", f"-rss_limit_mb={MEMORY_MB}"]
    options += ["-print_final_stats=1", "-use_value_profile=1"]
    options += [f"-artifact_prefix={FOUND}/{target.name}-", str(own), str(known)]
    start = cpu_seconds()
    with log.open("wb") as file:
        done = subprocess.run([*program, *options], stdout=file, stderr=file, env=environment(target), check=False)
    took = cpu_seconds() - start
    said = log.read_text(errors="replace")
    finds = sorted(kept(target) - before)
    if done.returncode and not finds:
        finds = [log]
    edges = [int(number) for number in re.findall(r" cov: (\d+)", said)]
    inputs = re.findall(r"stat::number_of_executed_units: (\d+)", said) or re.findall(r"^#(\d+)", said, re.MULTILINE)
    return Outcome(int(inputs[-1]) if inputs else 0, took, max(edges, default=0), finds)


def keep(target: Target, program: list[str]) -> None:
    """Make the corpus anew from the smallest inputs that together reach all edges."""
    folder = BUILD / target.name
    merged = folder / "merged"
    shutil.rmtree(merged, ignore_errors=True)
    merged.mkdir(parents=True)
    options = ["-merge=1", f"-use_counters={int(not target.native)}", f"-max_len={target.longest}", str(merged)]
    options += [str(folder / "known"), str(folder / "corpus")]
    subprocess.run([*program, *options], env=environment(target), capture_output=True, check=True)
    target.pack(merged)


def replay(target: Target, find: Path) -> str:
    """The command that shows a find again."""
    if not target.native:
        return f"{sys.executable} -m tests.fuzz.guided {target.name} {find}"
    material = f"FUZZ_MATERIAL={BUILD / target.name / 'material'} " if target.material else ""
    return f"{material}{BUILD / target.name / 'program'} {find}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.run")
    parser.add_argument("minutes", type=float, help="for each target")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="all, if none is named")
    parser.add_argument("--keep", action="store_true", help="add what was found to tests/fuzz/corpus")
    options = parser.parse_args()
    if unknown := set(options.targets) - {target.name for target in TARGETS}:
        parser.error(f"tests/fuzz/catalogue.py lists no target {', '.join(sorted(unknown))}")
    FOUND.mkdir(parents=True, exist_ok=True)
    seed = int(time.time()) % 2**31
    print(f"seed {seed}\n{HEAD}", flush=True)
    found: list[str] = []
    for target in TARGETS:
        if options.targets and target.name not in options.targets:
            continue
        program = command(target)
        done = fuzz(target, program, options.minutes * 60, seed)
        rate = done.inputs / max(done.seconds, 1e-3)
        numbers = f"{done.seconds / 60:>12.1f}{done.inputs:>13,}{rate:>10,.0f}{done.edges:>7,}"
        print(f"{target.name:<20}{numbers}  {len(done.finds)}", flush=True)
        for find in done.finds:
            found.append(f"{target.name}: {find}\n    {replay(target, find)}")
        if options.keep and not done.finds:
            keep(target, program)
    print("\n".join([*found, f"finds are kept in {FOUND}"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
