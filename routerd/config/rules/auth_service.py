"""Rules of authServicePlugins: each has a place to connect to, and passwords stay secret on their way."""

from collections.abc import Iterator

from routerd.config.entities.transport import AuthServicePlugin, port_number
from routerd.config.formats.source import Mistake, shown
from routerd.config.rules.check import Checked, each
from shm.contract.hosts import is_loopback


def check_auth_services(checked: list[Checked]) -> Iterator[Mistake]:
    """Yield mistakes in authServicePlugins."""
    for at, plugin in each(checked, AuthServicePlugin):
        yield from _service(at, plugin)


def _service(at: Checked, plugin: AuthServicePlugin) -> Iterator[Mistake]:
    if plugin.host and plugin.auth_service:
        yield at.mistake("authService", "repeats host and port; remove it")
        return
    host, port = plugin.place
    attribute = "host" if not plugin.auth_service else "authService"
    if not host:
        yield at.mistake(attribute, "names no host; give that of the service")
        return
    try:
        if not 0 < port_number(port) < 65536:
            yield at.mistake("port", f"{shown(port)} is not a port that a service can have; give 1 to 65535")
    except ValueError as error:
        yield at.mistake(attribute, f"{error}; give host:port")
    if plugin.ssl_profile is None and not is_loopback(host):
        text = "is missing, so passwords travel to the service in clear text; give one"
        yield at.mistake("sslProfile", text, warning=True)
