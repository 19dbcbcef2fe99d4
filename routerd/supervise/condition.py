"""Describes the router's condition in the one line that `systemctl status` shows."""

from typing import Final

from routerd.supervise.child import Place
from routerd.supervise.children import Children
from routerd.translate.setup import Blueprint
from shm.contract.numbers import counted
from shm.contract.roles import Role

_LACKING: Final = {Role.EXPORTER: "no http", Role.RECORDER: "no flow log"}  # what a role's absence means


def condition(children: Children, blueprint: Blueprint, connections: int, note: str, now: float) -> str:
    """Return which processes serve and which do not, and the note."""
    serving = sum(worker.serving for worker in children.workers)
    core = "" if children.core.serving else "core restarts, "
    count = f"{serving} of {counted(len(children.workers), 'worker')} serve, {counted(connections, 'connection')}"
    troubles = (_trouble(place, now) for place in children.everybody if _is_wanted(place, blueprint))
    return "; ".join([f"{core}{count}", *filter(None, [*troubles, note])])


def _trouble(place: Place, now: float) -> str:
    text = place.trouble(now)
    lacking = _LACKING.get(place.role)
    return f"{lacking}: {text}" if text and lacking and not place.serving else text


def _is_wanted(place: Place, blueprint: Blueprint) -> bool:
    wanted = {Role.EXPORTER: blueprint.exports, Role.RECORDER: blueprint.records}
    return wanted.get(place.role, True)
