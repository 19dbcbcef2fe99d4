"""The command line of qdrouterd: its options and exit statuses, for scripts and units that use them."""

import logging
import os
import pwd
import sys
from importlib import import_module
from pathlib import Path

import click

from routerd.cli.cli_options import FILE
from routerd.cli.config_file import warn
from routerd.cli.program import Program
from routerd.config import ConfigError, load
from routerd.config.entities.schema import PREFIX, entity_type
from routerd.log.journald import for_stderr
from routerd.machine.daemon import Daemon, detach
from routerd.machine.version import version

CONFIG = Path("/etc/qpid-dispatch/qdrouterd.conf")


@click.command(cls=Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("-c", "--config", "file", type=FILE, default=CONFIG, show_default=True, help="The configuration.")
@click.option("-I", "--include", metavar="PATH", help="Ignored: the router loads nothing from other places.")
@click.option("-d", "--daemon", "background", is_flag=True, help="Go into the background once it serves.")
@click.option("-P", "--pidfile", "pid_file", type=FILE, help="With -d: the file for the process id.")
@click.option("-U", "--user", metavar="NAME", help="With -d: the user to become.")
@click.option("-T", "--test-hooks", is_flag=True, help="Ignored: this router has no test hooks.")
@click.option("-v", "--version", "show_version", is_flag=True, help="Print the version and exit.")
def qdrouterd(
    file: Path,
    include: str | None,
    background: bool,
    pid_file: Path | None,
    user: str | None,
    test_hooks: bool,
    show_version: bool,
) -> int:
    """The router, by the options of qdrouterd."""
    del include  # qdrouterd's embedded interpreter needs it
    if show_version:
        click.echo(version())
        return 0
    if test_hooks:
        _say("-T: this router has no test hooks; core clients and core endpoints cannot be tested")
    if not background:
        if given := [name for name, value in (("-P", pid_file), ("-U", user)) if value]:
            _say(f"{' and '.join(given)} without -d: no effect; add it, or leave these out")
        return _run(file, None)
    file = file.absolute()
    pid_file = pid_file.absolute() if pid_file else None
    try:
        daemon = detach(pid_file)
    except OSError as error:
        _say(f"{error.filename or 'daemon'}: {error.strerror}; give a pid file that can be written to")
        return 1
    try:
        if user:
            _become(user)
    except OSError as error:
        _say(f"-U {user}: {error.strerror}; start it as root, or without -U")
        return 1
    except KeyError:
        _say(f"-U {user}: there is no such user; give one of /etc/passwd")
        return 1
    return _run(file, daemon)


def main() -> None:
    """Run; like qdrouterd, exit with status 1 for whatever keeps the router from running."""
    try:
        status = qdrouterd.main(prog_name="qdrouterd", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        status = 1
    except click.Abort:
        status = 1
    sys.exit(status)


def _run(file: Path, daemon: Daemon | None) -> int:
    try:
        config = load(file)
    except ConfigError as error:
        click.echo(for_stderr(str(error), logging.ERROR), err=True)
        _say_as_qdrouterd(file, error)
        return 1
    warn(config)
    supervisor = import_module("routerd.supervise.supervisor")  # late: a daemon forks first
    status: int = supervisor.run(config, announce=lambda _: daemon.serves() if daemon else None)
    return status


def _say_as_qdrouterd(file: Path, error: ConfigError) -> None:
    """Repeat the mistakes in the words of qdrouterd's exceptions, without places: scripts look for them."""
    for mistake in error.mistakes:
        if mistake.warning:
            continue
        said = mistake.text
        subject, _, what = said.partition(": ")
        entity = entity_type(subject.partition(" ")[0])
        if entity is not None:
            said = what
            _say(f"ValidationError: {said}")
            _say(f"AttributeError: {PREFIX}{entity.name}: {said}")
        _say(f"Exception: Cannot load configuration file {file}: {said}")


def _become(name: str) -> None:
    """Switch this process to another user with that user's groups."""
    user = pwd.getpwnam(name)
    os.initgroups(name, user.pw_gid)
    os.setgid(user.pw_gid)
    os.setuid(user.pw_uid)


def _say(text: str) -> None:
    click.echo(for_stderr(f"qdrouterd: {text}", logging.ERROR), err=True)


if __name__ == "__main__":
    main()
