"""Options and arguments that several commands share."""

import re
from collections.abc import Callable, Iterable
from functools import wraps
from importlib import import_module
from math import isnan
from pathlib import Path
from typing import Any

import click
import msgspec

LONGEST = 1e6  # seconds: the clock and the calls that wait take no more than some weeks


class _Seconds(click.FloatRange):
    """A positive number of seconds, for which the system's calls can wait."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number; fail with a usage error for one that is out of range, or none at all."""
        seconds: float = super().convert(value, param, ctx)
        if isnan(seconds):
            self.fail(f"{value} is no number of seconds", param, ctx)
        return seconds


SECONDS = _Seconds(0.0, LONGEST, min_open=True)
FILE = click.Path(path_type=Path, readable=False)
COUNT = click.IntRange(1)
FILE.name, COUNT.name = "file", "count"  # what the help calls their values
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
AS_JSON_LINES = click.option("--json", "as_json", is_flag=True, help="Print JSON lines, an object each.")
MOST_PORT = 2**16 - 1
_WHOLE = re.compile(r"-?[0-9]{1,19}")
_USER = re.compile(r"[^\s/@]+@")  # user and password in a URL


class Place(msgspec.Struct, frozen=True):
    """Names a router and says how to reach it and log in to it."""

    url: str = "amqp://127.0.0.1:5672"
    router: str | None = None  # a router other than the one at the URL
    timeout: float = 5.0  # seconds
    trustfile: str | None = None
    certificate: str | None = None
    key: str | None = None
    mechanisms: str | None = None
    edge: str | None = None  # an edge router's id
    user: str | None = None
    password_file: str | None = None

    @property
    def address(self) -> str:
        """The address of the management agent."""
        if self.edge:
            return f"_edge/{self.edge}/$management"
        return f"_topo/0/{self.router}/$management" if self.router else "$management"

    @property
    def shown(self) -> str:
        """The URL without user and password, fit for error texts."""
        return without_user(self.url)


class _Bus(click.ParamType[str]):
    """A router's URL in the form that Proton reads: scheme, user and port are optional."""

    name = "url"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return `value` unchanged; fail with a usage error if Proton cannot use it."""
        try:
            url = import_module("proton").Url(value)  # imported late: a check needs no Proton
            usable, port = url.scheme in (None, "amqp", "amqps"), url.port
        except ValueError:
            usable, port = False, None
        if port is not None and not 0 < port <= MOST_PORT:
            self.fail(f"there is no port {port}; give one from 1 to {MOST_PORT}", param, ctx)
        if not usable:
            self.fail("this is no URL of a router; give one such as amqp://127.0.0.1:5672", param, ctx)
        return str(value)


def bus(*names: str, **more: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the option `--bus`, the URL where the router listens."""
    return click.option("-b", "--bus", *names, type=_Bus(), metavar="URL", **more)


# In the order of the help; the parameters are named as the fields of `Place` are.
_OPTIONS = (
    bus("url", default=Place().url, show_default=True, help="URL of the router's listener; amqps:// means TLS."),
    click.option("-r", "--router", metavar="ID", help="Ask this router of the network, through the one at the URL."),
    click.option("-d", "--edge-router", "edge", metavar="ID", help="Ask this edge router, through the one at the URL."),
    click.option(
        "-t", "--timeout", type=SECONDS, default=5.0, show_default=True, help="How long to wait for an answer."
    ),
    click.option("--ssl-trustfile", "trustfile", metavar="FILE", help="CA certificates to trust; only with amqps://."),
    click.option("--ssl-certificate", "certificate", metavar="FILE", help="The client's certificate."),
    click.option("--ssl-key", "key", metavar="FILE", help="The private key of the client's certificate."),
    click.option("--sasl-mechanisms", "mechanisms", metavar="NAMES", help="SASL mechanisms that the client may use."),
    click.option("--sasl-username", "user", metavar="NAME", help="The user to log in as."),
    click.option(
        "--sasl-password-file", "password_file", metavar="FILE", help="A file with the password as first line."
    ),
)


def asks(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that name a router and how to log in to it; the command gets them as a `place`."""

    @wraps(command)
    def asking(**given: Any) -> None:
        place = Place(**{name: given.pop(name) for name in Place.__struct_fields__})
        _check(place)
        command(**given, place=place)

    for option in reversed(_OPTIONS):
        asking = option(asking)
    return asking


_LOCAL = (
    click.option("--pid", type=click.IntRange(1), help="Process id of the router's supervisor."),
    click.option("--pid-file", type=FILE, help="A file that holds this process id."),
    click.option("--unit", metavar="NAME", help="The router's systemd unit."),
    bus(help="URL of the router's listener on this machine."),
)


def local_router(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that name a router on this machine; the command gets them as they are."""

    @wraps(command)
    def naming(**given: Any) -> None:
        if sum(given[name] is not None for name in ("pid", "pid_file", "unit", "bus")) > 1:
            raise click.UsageError("--pid, --pid-file, --unit and --bus each say which router; give one of them")
        command(**given)

    for option in reversed(_LOCAL):
        naming = option(naming)
    return naming


def _check(place: Place) -> None:
    """Raise click.UsageError for options that contradict each other or are not UTF-8."""
    if place.router and place.edge:
        raise click.UsageError("--router and --edge-router name two routers; give one of them")
    if place.key and not place.certificate:
        raise click.UsageError("--ssl-key needs the certificate of that key; give it with --ssl-certificate")
    if (place.trustfile or place.certificate) and not place.url.startswith("amqps:"):
        raise click.UsageError("certificates need TLS; give --bus a URL that begins with amqps://")
    if place.password_file and not (place.user or "@" in place.url):
        raise click.UsageError("--sasl-password-file needs a user; give one with --sasl-username")
    if place.user and not (place.password_file or place.certificate or place.mechanisms):
        raise click.UsageError("--sasl-username needs a password; give a file that has it with --sasl-password-file")
    check_utf8(place.url, place.router, place.edge, place.user, place.mechanisms)


def goes_by_address(place: Place) -> None:
    """Raise click.UsageError for options that name another router: messages find their way by their address."""
    if place.router or place.edge:
        raise click.UsageError(
            "messages go by their address to whichever router has receivers, so --router and --edge-router mean "
            "nothing here; give --bus the router to connect to"
        )


def check_utf8(*texts: str | None) -> None:
    """Raise click.UsageError if the octets of an argument were no UTF-8."""
    for text in texts:
        try:
            (text or "").encode()
        except UnicodeEncodeError:
            raise click.UsageError(f"{text!r} is not UTF-8; give it in UTF-8") from None


def examples(*lines: str) -> str:
    """Return the examples at the end of a command's help."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def without_user(text: str) -> str:
    """Return a text without the user and password of a URL in it."""
    return _USER.sub("", text)


def application_properties(texts: Iterable[str], numbers: Iterable[str]) -> dict[str, str | int]:
    """Return what NAME=VALUE options give a message: texts, and whole numbers, which AMQP has as long."""
    given: dict[str, str | int] = {}
    for one in texts:
        name, equals, text = one.partition("=")
        if not equals:
            raise click.UsageError(f"{one!r} is not understood; give --property NAME=VALUE")
        given[name] = text
    for one in numbers:
        name, _, digits = one.partition("=")
        if not _WHOLE.fullmatch(digits) or not -(2**63) <= int(digits) < 2**63:
            raise click.UsageError(f"{one!r} is not understood; give --number NAME=VALUE, a whole number of 64 bits")
        given[name] = int(digits)
    return given
