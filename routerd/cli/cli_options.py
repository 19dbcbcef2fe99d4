"""The options of commands that ask a running router, and what they mean."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import click

SECONDS = click.FloatRange(0.0, min_open=True)


class _Bus(click.ParamType[str]):
    """A URL of a router, as the engine reads them: scheme, user and port may be missing."""

    name = "url"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """As it is, if it can be used."""
        try:
            url = import_module("proton").Url(value)  # late: a check needs no engine
            usable = url.scheme in (None, "amqp", "amqps") and (url.port or True)
        except ValueError:
            usable = False
        if not usable:
            self.fail(
                "no URL of a router; give one such as amqp://127.0.0.1:5672, or amqps:// with TLS", param, ctx
            )
        return str(value)


def bus(**more: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The option that says where a router listens."""
    told = {"help": "Where the router listens; amqps:// with TLS."} | more
    return click.option("-b", "--bus", type=_Bus(), metavar="URL", **told)


def examples(*lines: str) -> str:
    """What a command's help ends with."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def asks(command: Callable[..., None]) -> Callable[..., None]:
    """The options that say which router is meant."""
    options = (
        bus(default="amqp://127.0.0.1:5672", show_default=True),
        click.option(
            "-r", "--router", metavar="ID", help="Another router of the network than that at the URL."
        ),
        click.option("-d", "--edge-router", metavar="ID", help="An edge router of the network."),
        click.option(
            "-t", "--timeout", type=SECONDS, default=5.0, show_default=True, metavar="SECONDS",
            help="How long to wait for an answer.",
        ),
        click.option("--ssl-trustfile", metavar="FILE", help="Certificates that are trusted, with amqps://."),
        click.option("--ssl-certificate", metavar="FILE", help="Our certificate."),
        click.option("--ssl-key", metavar="FILE", help="Its key."),
        click.option("--sasl-mechanisms", metavar="NAMES", help="SASL mechanisms that may be used."),
        click.option("--sasl-username", metavar="NAME", help="The user to log in as."),
        click.option("--sasl-password-file", metavar="FILE", help="The user's password: its first line."),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def place_of(options: dict[str, Any]) -> Any:
    """The router that these options mean; the client is loaded when it is needed."""
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
