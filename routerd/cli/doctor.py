"""`routerd doctor`: what on this machine will hurt a router, each with its remedy."""

import os
import sys

import click
from rich.console import Console

from routerd.cli.printed import print_json
from routerd.cli.printed_table import add_row, table
from routerd.config import Config
from routerd.machine.checkup import Machine, Verdict, checkup

STYLES = {Verdict.OK: "", Verdict.WARNING: "yellow", Verdict.ERROR: "bold red"}


def run(config: Config, as_json: bool) -> None:
    """Print the findings for a router with this configuration; with an error among them, exit with status 1."""
    findings = list(checkup(config.router, Machine(), os.sched_getaffinity(0)))
    if as_json:
        print_json(findings)
    else:
        shown = table("what", "verdict", "found")
        for one in findings:
            add_row(shown, one.name, one.verdict, one.found, style=STYLES[one.verdict])
        Console(highlight=False).print(shown)
        for one in findings:
            if one.remedy:
                click.echo(f"{one.name}: {one.remedy}")
    sys.exit(any(one.verdict is Verdict.ERROR for one in findings))
