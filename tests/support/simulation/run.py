"""``python -m tests.support.simulation.run MINUTES [SEED] [--lives N]``: simulate routers for so long (make simulate).

Three quarters of the time are for the inside of one router, the rest for networks of routers. The seed of the first
life is from the clock, or SEED; each later life has the next one. With ``--lives`` there are so many of either,
however long they take. The exit status is 1 if a promise was broken; the line that begins with SEED= names the life.
"""

import argparse
import subprocess
import sys
import time

from tests.fuzz.catalogue import ROOT
from tests.support.simulation.build import build
from tests.support.simulation.networks import networks

NETWORKS = 0.25  # the share of the time


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.support.simulation.run")
    parser.add_argument("minutes", type=float, help="of CPU time")
    parser.add_argument("seed", type=int, nargs="?", default=int(time.time()) % 2**31 << 20, help="of the first life")
    parser.add_argument("--lives", type=int, default=0)
    options = parser.parse_args()
    program = build(ROOT / "build" / "simulation")
    print(f"seed {options.seed}", flush=True)
    seconds = 0 if options.lives else options.minutes * 60
    command = [str(program), str(options.seed), str(options.lives), str(seconds * (1 - NETWORKS))]
    whole = subprocess.run(command, check=False).returncode == 0
    whole = networks(options.seed, options.lives, seconds * NETWORKS) and whole
    if not whole:
        print("repeat one life:  make simulate SEED=n LIVES=1;  SIMULATION_TELL=1 shows what everybody knows then")
    return 0 if whole else 1


if __name__ == "__main__":
    sys.exit(main())
