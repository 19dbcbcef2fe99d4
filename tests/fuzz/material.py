"""Files that fuzzing targets read before their first input."""

from pathlib import Path

from routerd.source_routes.address import local, parse_route
from tests.model.source_routes.place import Place
from tests.model.source_routes.setup import setup_of
from tests.model.source_routes.workers import (
    Collapse,
    Discovery,
    Extend,
    Forward,
    PayloadUnwrap,
    PayloadWrap,
    Proxy,
    Static,
    Tee,
    ToMarker,
    Unwrap,
    Worker,
    Wrap,
)
from tests.support.programs import sasl_users
from workers.source_routes.table import Sources, compiled

WORKERS: list[Worker] = [
    Forward(address=local("f"), trace=True),
    Static(address=local("s"), route=parse_route("s=>f")),
    Proxy(address=local("p"), inner=local("p.in"), route=parse_route("f=>q")),
    Extend(address=local("e"), route=parse_route("f=>64#x"), marker=True),
    Collapse(address=local("c"), strip=ToMarker()),
    PayloadWrap(address=local("pw"), trace=True),
    PayloadUnwrap(address=local("pu")),
    Wrap(address=local("w"), route=parse_route("f=>u"), metadata="copy"),
    Wrap(address=local("wb"), route=parse_route("ub"), form="bare"),
    Unwrap(address=local("u"), trace=True, metadata="merge"),
    Unwrap(address=local("ub"), trace=True, form="bare"),
    Tee(address=local("t"), route=parse_route("w=>t=>audit")),
    Discovery(address=local("d"), inner=local("d.in"), route=parse_route("d.in")),
]


def source_routes(folder: Path) -> None:
    """Write the table of one route worker of each kind, as a worker gets it."""
    setup = setup_of(Place("", {address: one for one in WORKERS for address in one.addresses}))
    (folder / "table").write_bytes(compiled(setup, Sources(setup.workers)))


def logins(folder: Path) -> None:
    """Write a database of Cyrus SASL with one user."""
    sasl_users.make(folder, alice="secret")
