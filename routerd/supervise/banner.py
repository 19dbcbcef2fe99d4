"""The text that an operator sees on the terminal when the router serves."""

from collections.abc import Sequence

from routerd.machine.listeners import Listening
from routerd.machine.pinning import ranges
from routerd.supervise.child import Place


def banner(version: str, router_id: str, places: Sequence[Place], listening: Sequence[Listening]) -> str:
    """Return the start-up text: version, router id, processes with their CPUs, and the URLs to connect to."""
    lines = [f"routerd {version}, router {router_id}", ""]
    for place in places:
        pid = place.child.pid if place.child else "-"
        lines.append(f"  {place.name:<10} pid {pid:<8} {_cpus(place.cpus)}")
    lines.append("")
    urls = [(url, one.listener.name or "") for one in listening for url in one.urls]
    lines += [f"  {'connect to' if i == 0 else '':<10} {url}  {name}".rstrip() for i, (url, name) in enumerate(urls)]
    if not urls:
        lines.append("  no listener, so nobody can connect")
    lines += ["", "Ctrl-C stops it."]
    return "\n".join(lines)


def _cpus(cpus: Sequence[int]) -> str:
    if not cpus:
        return "any CPU"
    return f"CPU {ranges(cpus)}" if len(cpus) == 1 else f"CPUs {ranges(cpus)}"
