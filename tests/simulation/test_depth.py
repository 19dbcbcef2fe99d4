"""A whole router in one process (tests/simulation/depth): its promises hold, and each check of them can fail."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.fuzz.catalogue import ROOT
from tests.support.simulation.build import PARTS, compiled, linked
from tests.support.simulation.mutants import IN_LIVES, PLAIN, SOURCED, TABLES, Mutant
from tests.support.simulation.plane_mutants import BY_ROUTE, BY_TABLES

LIVES = 60, 30, 30  # of each kind
MOST = 1200  # lives in which a fault is searched for
AGAIN = 10  # lives that are the same a second time
SECONDS = 500  # for a program, on a machine that does much else

MUTANTS = [*IN_LIVES, *BY_TABLES, *BY_ROUTE]

pytestmark = pytest.mark.timeout(SECONDS + 100)

FAULTS = """#include <stdlib.h>
int the_fault = -1;
__attribute__((constructor)) static void chosen(void)
{
    const char *number = getenv("THE_FAULT");
    if (number) the_fault = atoi(number);
}
"""


def faulty(part: str, include: Path) -> None:
    """Write the files of a part, with each fault in its place, where the compiler finds them first."""
    texts: dict[str, str] = {}
    for number, mutant in enumerate(MUTANTS):
        if mutant.part != part:
            continue
        assert (ROOT / mutant.file).read_text().count(mutant.right) == 1
        text = texts.get(mutant.file, "extern int the_fault;\n" + (ROOT / mutant.file).read_text())
        assert text.count(mutant.right) == 1, "another fault is there"
        texts[mutant.file] = text.replace(mutant.right, mutant.wrong.replace("FAULT", f"(the_fault == {number})"))
    for file, text in texts.items():
        (include / file).parent.mkdir(parents=True, exist_ok=True)
        (include / file).write_text(text)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The simulation, with all faults in it: the environment chooses one, or none. Compiling it takes most of the
    time."""
    folder = tmp_path_factory.mktemp("simulation")
    for part in PARTS:
        faulty(part, folder / part)
    (folder / "faults.c").write_text(FAULTS)
    made = [compiled(part, folder, "-O0", folder / part) for part in PARTS]
    return linked([*made, folder / "faults.c"], folder / "world")


def simulated(program: Path, kind: int, seed: int, lives: int, fault: int = -1) -> subprocess.CompletedProcess[str]:
    command = [str(program), str(seed), str(lives), "0", str(kind)]
    chosen = os.environ | {"THE_FAULT": str(fault)}
    return subprocess.run(command, env=chosen, capture_output=True, text=True, timeout=SECONDS, check=False)


@pytest.mark.parametrize("kind", [PLAIN, TABLES, SOURCED])
def test_promises_hold(program: Path, kind: int) -> None:
    """Among deaths and in any order nothing accepted is lost, nothing is settled twice, credit and blocks come back."""
    done = simulated(program, kind, 1, LIVES[kind])
    assert done.returncode == 0, done.stderr
    twice = [simulated(program, kind, 1, AGAIN).stdout.splitlines()[1:] for _ in range(2)]  # all but the time it took
    assert twice[0] == twice[1] != []


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{Path(mutant.file).stem}-{mutant.says.split()[0]}")
def test_a_fault_is_found(program: Path, mutant: Mutant) -> None:
    """Each check fails when the code is wrong in a small way."""
    done = simulated(program, mutant.kind, mutant.seed, MOST, MUTANTS.index(mutant))
    assert done.returncode == 1, done.stdout
    assert mutant.says in done.stderr, done.stderr
