"""Reads a configuration for a command: mistakes and warnings go to standard error."""

import logging
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import click

from routerd.cli.printed import print_json
from routerd.config import Config, ConfigError, default_config, load, validity
from routerd.config.formats.source import Mistake
from routerd.log.journald import for_stderr


def loaded(file: Path, status: int = 1) -> Config:
    """Return the configuration in a file; with a mistake in it, end the program with this status."""
    try:
        return load(file)
    except ConfigError as error:
        click.echo(for_stderr(str(error), logging.ERROR), err=True)
        sys.exit(status)


def loaded_or_default(file: Path | None, status: int = 1) -> Config:
    """Return the configuration in a file, or the built-in one if there is no file."""
    return loaded(file, status) if file else default_config()


def print_findings(file: Path) -> int:
    """Print what a file has, mistakes and warnings, as JSON; return the exit status: 1 for a mistake."""
    try:
        config = load(file)
    except ConfigError as error:
        print_json({"file": str(file), "entities": 0, "findings": error.mistakes})
        return 1
    print_json({"file": str(file), "entities": config.count, "findings": [*config.warnings, *expiring(config)]})
    return 0


def expiring(config: Config) -> list[Mistake]:
    """Return warnings about certificates that have expired or soon will: the log of a router has them, too."""
    return list(validity.expiring(config.checked, time.time()))


def warn(config: Config, more: Iterable[Mistake] = ()) -> None:
    """Report the warnings about a configuration, and more of them."""
    for warning in (*config.warnings, *more):
        click.echo(for_stderr(str(warning), logging.WARNING), err=True)
