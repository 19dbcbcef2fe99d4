"""Options shared by the commands that query a running router."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import click

SECONDS = click.FloatRange(0.0, min_open=True)


class _Bus(click.ParamType[str]):
    """A router's URL in the form that Proton reads: scheme, user and port are optional."""

    name = "url"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return `value` unchanged; fail with a usage error if Proton cannot use it."""
        try:
            url = import_module("proton").Url(value)  # imported late: a check needs no Proton
            usable = url.scheme in (None, "amqp", "amqps") and (url.port or True)
        except ValueError:
            usable = False
        if not usable:
            self.fail("no URL of a router; give one such as amqp://127.0.0.1:5672, or amqps:// with TLS", param, ctx)
        return str(value)


def bus(**more: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the option `--bus`, the URL where the router listens; `more` overrides its settings."""
    told = {"help": "Where the router listens; amqps:// with TLS."} | more
    return click.option("-b", "--bus", type=_Bus(), metavar="URL", **told)


def examples(*lines: str) -> str:
    """Return the examples at the end of a command's help."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def asks(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that name a router and how to connect and log in to it."""
    options = (
        bus(default="amqp://127.0.0.1:5672", show_default=True),
        click.option(
            "-r", "--router", metavar="ID",
            help="Query this router of the network instead of the one at the URL.",
        ),
        click.option(
            "-d", "--edge-router", metavar="ID", help="Query this edge router of the network instead.",
        ),
        click.option(
            "-t", "--timeout", type=SECONDS, default=5.0, show_default=True, metavar="SECONDS",
            help="How long to wait for an answer.",
        ),
        click.option("--ssl-trustfile", metavar="FILE", help="Certificates to trust, with amqps://."),
        click.option("--ssl-certificate", metavar="FILE", help="The client's certificate."),
        click.option("--ssl-key", metavar="FILE", help="The key of the client's certificate."),
        click.option("--sasl-mechanisms", metavar="NAMES", help="SASL mechanisms that may be used."),
        click.option("--sasl-username", metavar="NAME", help="The user to log in as."),
        click.option("--sasl-password-file", metavar="FILE", help="The user's password: its first line."),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def place_of(options: dict[str, Any]) -> Any:
    """Return the `Place` that the options name. The client, with Proton, is loaded only here.

    Raises click.UsageError for options that contradict each other or are not UTF-8.
    """
    if options["router"] and options["edge_router"]:
        raise click.UsageError("--router and --edge-router name two routers; give one of them")
    if options["ssl_key"] and not options["ssl_certificate"]:
        raise click.UsageError("--ssl-key is the key of a certificate; give that with --ssl-certificate")
    for name in ("bus", "router", "edge_router", "sasl_username", "sasl_mechanisms"):
        try:
            (options[name] or "").encode()
        except UnicodeEncodeError:
            option = f"--{name.replace('_', '-')}"
            raise click.UsageError(f"{option} {options[name]!r} is not UTF-8; give it in UTF-8") from None
    tls = options["ssl_trustfile"] or options["ssl_certificate"]
    if tls and not options["bus"].startswith("amqps:"):
        raise click.UsageError("certificates are for TLS; give --bus a URL that begins with amqps://")
    if options["sasl_password_file"] and not (options["sasl_username"] or "@" in options["bus"]):
        raise click.UsageError("--sasl-password-file is of a user; give that with --sasl-username")
    return import_module("routerd.cli.connection_options").Place(
        url=options["bus"],
        router=options["router"],
        timeout=options["timeout"],
        trustfile=options["ssl_trustfile"],
        certificate=options["ssl_certificate"],
        key=options["ssl_key"],
        mechanisms=options["sasl_mechanisms"],
        edge=options["edge_router"],
        user=options["sasl_username"],
        password_file=options["sasl_password_file"],
    )
