"""The command line: `routerd run` and `routerd check`."""

import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import click

from routerd.config import Config, ConfigError, default_config, load


def _version() -> str:
    try:
        return version("routerd")
    except PackageNotFoundError:
        return "not installed; run make build"


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(_version(), prog_name="routerd")
def main() -> None:
    """A message router for AMQP 1.0."""


@main.command()
@click.option("-c", "--config", "file", type=click.Path(path_type=Path), help="A .conf, .json or .toml file.")
def run(file: Path | None) -> None:
    """Run a router until SIGINT or SIGTERM; without a file it listens on 127.0.0.1:5672."""
    config = _loaded(file) if file else default_config()
    for warning in config.warnings:
        click.echo(warning, err=True)
    supervisor = import_module("routerd.supervisor")  # late: a check needs none of it
    sys.exit(supervisor.run(config))


@main.command()
@click.argument("file", type=click.Path(path_type=Path))
def check(file: Path) -> None:
    """Say every mistake in FILE, each with its line and what would be right."""
    config = _loaded(file)
    for warning in config.warnings:
        click.echo(warning, err=True)
    click.echo(f"{file}: ok ({config.count} {'entity' if config.count == 1 else 'entities'})")


def _loaded(file: Path) -> Config:
    try:
        return load(file)
    except ConfigError as error:
        click.echo(error, err=True)
        sys.exit(1)


if __name__ == "__main__":
    main(prog_name="routerd")
