"""``python -m tests.fuzz.guided TARGET [libFuzzer's options]``: a Python target under Atheris."""

import importlib
import logging
import sys

import atheris

from tests.fuzz.strict import strict

OURS = ["core", "routerd", "shm", "tests.fuzz.targets"]  # packages whose branches guide the search


def main() -> None:
    logging.disable()
    name, *options = sys.argv[1:]
    with atheris.instrument_imports(include=OURS):
        target = importlib.import_module(f"tests.fuzz.targets.{name}")
    again = f"{sys.executable} -m tests.fuzz.guided {name}"  # a merge starts the program once more
    atheris.Setup([again, *options], strict(target.one))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
