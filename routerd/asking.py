"""The options of commands that ask a running router, and what they mean."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import click


def asks(command: Callable[..., None]) -> Callable[..., None]:
    """The options that say which router is meant."""
    options = (
        click.option("-b", "--bus", default="amqp://127.0.0.1:5672", show_default=True, metavar="URL"),
        click.option(
            "-r", "--router", metavar="ID", help="Another router of the network than that at the URL."
        ),
        click.option("-d", "--edge-router", metavar="ID", help="An edge router of the network."),
        click.option("-t", "--timeout", default=5.0, show_default=True, metavar="SECONDS"),
        click.option("--ssl-trustfile", metavar="FILE", help="Certificates that are trusted."),
        click.option("--ssl-certificate", metavar="FILE", help="Our certificate."),
        click.option("--ssl-key", metavar="FILE", help="Its key."),
        click.option("--sasl-mechanisms", metavar="NAMES", help="SASL mechanisms that may be used."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def place_of(options: dict[str, Any]) -> Any:
    """The router that these options mean; the client is loaded when it is needed."""
    if options["router"] and options["edge_router"]:
        raise click.UsageError("--router and --edge-router name two routers; give one of them")
    client = import_module("routerd.client")
    return client.Place(
        options["bus"],
        options["router"],
        options["timeout"],
        options["ssl_trustfile"],
        options["ssl_certificate"],
        options["ssl_key"],
        options["sasl_mechanisms"],
        options["edge_router"],
    )
