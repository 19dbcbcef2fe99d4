"""The applications of a route table, found by every name that they have, in a time that does not grow with them."""

from collections.abc import Iterator

from core.rmr.managers.application import Application

_PLACE, _CONNECTION, _DIAL, _GUEST, _IDLE = "place", "connection", "dial", "guest", "idle"
_EVERYWHERE = ""  # as a guest's host


class Applications:
    """The applications.

    Guests are those that are not configured, idle ones guests without a connection that have not acknowledged
    anything.
    """

    def __init__(self) -> None:
        self._all: dict[tuple[str, str], Application] = {}  # by endpoint and control port
        self._named: dict[tuple[str, str], dict[Application, None]] = {}  # by kind and name

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Application]:
        return iter(list(self._all.values()))

    def find(self, endpoint: str, control: str) -> Application | None:
        """Return the application with this endpoint and control port, or None."""
        return self._all.get((endpoint, control))

    def at(self, place: str) -> list[Application]:
        """Return those with this endpoint or control port, oldest first."""
        return self._of(_PLACE, place)

    def on(self, connection: str) -> list[Application]:
        """Return those that use this connection."""
        return self._of(_CONNECTION, connection)

    def behind(self, dial: str) -> list[Application]:
        """Return those to which the router connects at this place."""
        return self._of(_DIAL, dial)

    def guests(self, host: str = _EVERYWHERE) -> int:
        """Return the number of guests, or of those of one host."""
        return len(self._named.get((_GUEST, host), ()))

    def idle(self, host: str = _EVERYWHERE) -> Application | None:
        """Return the guest that has been idle for longest, of all or of one host, or None."""
        return next(iter(self._named.get((_IDLE, host), ())), None)

    def add(self, one: Application) -> None:
        """Add an application."""
        self._all[one.endpoint, one.control] = one
        for name in _names(one):
            self._named.setdefault(name, {})[one] = None

    def remove(self, one: Application) -> None:
        """Remove an application. Raises KeyError."""
        del self._all[one.endpoint, one.control]
        self._forget(one, _names(one))

    def locate(self, one: Application, endpoint: str) -> None:
        """Give an application of which only the control port was known its endpoint."""
        self.remove(one)
        one.endpoint = endpoint
        self.add(one)

    def prove(self, one: Application) -> None:
        """Note that an application has acknowledged something."""
        before = _names(one)
        one.proven = True
        self._forget(one, before - _names(one))

    def move(
        self, one: Application, *, connection: str | None = None, dial: str | None = None, host: str | None = None
    ) -> None:
        """Change where an application is reached; None leaves that as it is."""
        before = _names(one)
        one.connection = one.connection if connection is None else connection
        one.dial = one.dial if dial is None else dial
        one.host = one.host if host is None else host
        after = _names(one)
        self._forget(one, before - after)
        for name in after - before:
            self._named.setdefault(name, {})[one] = None

    def _of(self, kind: str, name: str) -> list[Application]:
        return list(self._named.get((kind, name), ()))

    def _forget(self, one: Application, names: set[tuple[str, str]]) -> None:
        for name in names:
            del self._named[name][one]
            if not self._named[name]:
                del self._named[name]


def _names(one: Application) -> set[tuple[str, str]]:
    """Return the names that an application has now, each with its kind."""
    places = {(_PLACE, one.control), (_PLACE, one.endpoint), (_CONNECTION, one.connection), (_DIAL, one.dial)}
    kinds = () if one.fixed else (_GUEST,) if one.connection or one.proven else (_GUEST, _IDLE)
    return {name for name in places if name[1]} | {(kind, host) for kind in kinds for host in (one.host, _EVERYWHERE)}
