"""Whatever stands for a source route in a configuration: it is refused, or its text reads as the same."""

from contextlib import suppress

from routerd.source_routes.address import parse_address, parse_route, show_route


def one(octets: bytes) -> None:
    text = octets.decode("utf-8", "surrogateescape")
    with suppress(ValueError):
        parse_address(text)
    try:
        route = parse_route(text)
    except ValueError:
        return
    names = [address.value.decode("utf-8", "replace") for address in route]
    if all(name.isprintable() and name == name.strip() and "\ufffd" not in name for name in names):
        assert parse_route(show_route(route)) == route
