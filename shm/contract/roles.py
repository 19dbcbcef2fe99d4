"""The roles of a router's processes: the names in command lines, logs, metrics and management."""

from enum import StrEnum


class Role(StrEnum):
    """The role of one process."""

    SUPERVISOR = "supervisor"
    CORE = "core"
    WORKER = "worker"
    RECORDER = "recorder"
    EXPORTER = "exporter"
    SPARE = "spare"  # waits to take the role of a dead core or worker


def process_name(role: Role, index: int = 0) -> str:
    """Return the name of a process; only a worker's name has a number, as every other role is unique."""
    return f"{role}-{index}" if role == Role.WORKER else str(role)


def is_worker(process: str) -> bool:
    """Return whether a process name is a worker's."""
    return process.startswith(f"{Role.WORKER}-")
