"""Options of qdstat that `routerd stat` has not, and what to give in their place."""

from typing import Final

import click

from routerd.cli.program import Command

INSTEAD: Final = {
    "--autolinks": "give --auto-links",
    "--linkroutes": "give --link-routes",
    "--edge": "give --connections, whose column role tells edge routers",
    "-e": "give --connections, whose column role tells edge routers",
    "--policy": "use `routerd manage query --type policy`",
    "-p": "use `routerd manage query --type policy`",
    "--vhosts": "use `routerd manage query --type vhost`",
    "--vhostgroups": "use `routerd manage query --type vhost`, which shows each vhost's groups",
    "--vhoststats": "use `routerd manage query --type vhostStats`",
    "--log": "use `routerd log`",
    "--all-routers": "give --router all",
    "--all-entities": "give one after the other: --general, --connections, --links, --addresses, --nodes, --memory",
    "--csv": "give --json",
    "--verbose": "give --json, which has all attributes",
    "-v": "give --json, which has all attributes",
    "--ssl-password": "give --ssl-key a key without a password",
    "--ssl-password-file": "give --ssl-key a key without a password",
    "--ssl-disable-peer-name-verify": "give --bus the name that is in the router's certificate",
    "--sasl-password": "give --sasl-password-file a file with the password: others see a command line",
}


class Stat(Command):
    """A command that tells who types an option of qdstat what to give instead."""

    def parse_args(self, context: click.Context, arguments: list[str]) -> list[str]:
        """Read the arguments. Raises click.UsageError."""
        try:
            return super().parse_args(context, arguments)
        except click.NoSuchOption as error:
            if (instead := INSTEAD.get(error.option_name)) is None:
                raise
            raise click.UsageError(f"{error.option_name} is an option of qdstat; {instead}", context) from error
