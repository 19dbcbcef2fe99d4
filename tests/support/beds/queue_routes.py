"""Link routes that lead addresses below `queue` to a broker."""

from tests.support.running import Configuration


def queue_routes(container: str, router: str = "") -> Configuration:
    """A router whose second listener awaits that broker; ``router`` has further attributes of it."""
    routes = "".join(
        f"linkRoute {{\n prefix: queue\n direction: {direction}\n containerId: {container}\n}}\n"
        for direction in ("in", "out")
    )
    listener = "listener {\n host: 127.0.0.1\n port: 0\n role: route-container\n}\n"
    return Configuration(router=router, sections=listener + routes)
