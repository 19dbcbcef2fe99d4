"""The route tables of a replay: a recording names each by its address."""

from core.forwarder.forward import TABLE_ENTRIES, Forwarder, Routes, TableImage, numbered_owners, restored_routes
from shm.memory.flight import RecordingError

ROUTES, OWNERS = TABLE_ENTRIES  # kinds of entries: a table in use, and the owners of its managed entities


class Tables:
    """What calls and checkpoints say of route tables. Raises RecordingError if a table makes no sense."""

    def __init__(self, forwarder: Forwarder) -> None:
        self._forwarder = forwarder
        self._routes: dict[int, Routes] = {}  # by the handle of their address
        self._bound = _Bound()
        self._kept: set[int] = set()  # addresses that the core itself names
        self._image = TableImage()  # of the table that comes into use next
        self._about = self._owners = b""  # of the one that a checkpoint describes

    # ---- calls ----

    def add(self, address: int) -> None:
        self._routes[address] = Routes(self._forwarder, address)
        self._forget(address)

    def open(self, address: int) -> None:
        self._routes[address].open()

    def close(self, address: int) -> None:
        self._routes.pop(address).close()
        self._forget(address)

    def set_skip_dead(self, address: int, skip: bool) -> None:
        self._routes[address].set_skip_dead(skip)

    def part(self, kind: int, octets: bytes) -> None:
        self._image.take(kind, octets)

    def use_table(self, address: int, moved: bytes) -> None:
        routes, image = self._routes[address], self._image
        self._image = TableImage()
        try:
            table = image.table(self._forwarder)
        except ValueError as error:
            raise RecordingError(f"a recorded route table makes no sense: {error}") from None
        routes.use_table(table, moved)
        self._bound.forget(address, True)

    def use_owners(self, address: int, count: int, moved: bytes) -> None:
        self._routes[address].use_owners(numbered_owners(self._forwarder, count), moved)
        self._bound.forget(address, False)

    def settle(self, address: int) -> None:
        self._routes[address].settle()

    def bind(self, address: int, endpoint: int, owner: int, target: int) -> None:
        self._routes[address].bind(endpoint, owner, target)
        for at, in_table in ((endpoint, True), (owner, False)):
            if at >= 0:
                self._bound.bind(address, in_table, at, target)

    def keep(self, address: int) -> None:
        """Let nothing remove an address, which the core itself names."""
        self._kept.add(address)

    def remove_address(self, address: int) -> None:
        """Remove an address to which nothing is bound any more after that.

        A router unbinds it a moment later. A recording that never does must not leave its endpoints bound.
        """
        if address in self._kept or address in self._routes:
            raise ValueError("the core itself or a route table has this address")
        bound = self._bound.of(address)
        self._bind(bound, 0)
        if not self._forwarder.remove_address(address):
            self._bind(bound, address)

    def _bind(self, bound: list[tuple[int, bool, int]], target: int) -> None:
        for address, in_table, at in bound:
            self.bind(address, at if in_table else -1, -1 if in_table else at, target)

    def _forget(self, address: int) -> None:
        self._bound.forget(address, True)
        self._bound.forget(address, False)

    # ---- checkpoints ----

    def restore(self, kind: int, octets: bytes) -> str | None:
        """Take an entry of a checkpoint, from ROUTES to OWNERS. Return what is wrong with it."""
        if kind == OWNERS:
            self._owners += octets
            return None
        if kind == ROUTES:
            wrong = self.restored()
            self._about = octets
            return wrong
        try:
            self._image.take(kind, octets)
        except ValueError as error:
            return str(error)
        return None

    def restored(self) -> str | None:
        """End what is said of a table. Return what is wrong with it as a whole."""
        about, owners, image = self._about, self._owners, self._image
        self._about, self._owners, self._image = b"", b"", TableImage()
        if not about:
            return None
        try:
            routes, bindings = restored_routes(self._forwarder, about, image, owners)
        except ValueError as error:
            return str(error)
        self._routes[routes.address] = routes
        for endpoint, owner, target in bindings:
            self.bind(routes.address, endpoint, owner, target)
        return None


class _Bound:
    """Which endpoints of tables (True) and of their owners (False) are bound to which addresses."""

    def __init__(self) -> None:
        self._targets: dict[tuple[int, bool], dict[int, int]] = {}
        self._of: dict[int, set[tuple[int, bool, int]]] = {}

    def bind(self, address: int, in_table: bool, at: int, target: int) -> None:
        targets = self._targets.setdefault((address, in_table), {})
        self._of.get(targets.pop(at, 0), set()).discard((address, in_table, at))
        if target:
            targets[at] = target
            self._of.setdefault(target, set()).add((address, in_table, at))

    def of(self, target: int) -> list[tuple[int, bool, int]]:
        """Return what is bound to an address."""
        return sorted(self._of.get(target, ()))

    def forget(self, address: int, in_table: bool) -> None:
        for at, target in self._targets.pop((address, in_table), {}).items():
            self._of[target].discard((address, in_table, at))
