"""What a process of a router is: the names that command lines, logs, metrics and management show."""

from enum import StrEnum


class Role(StrEnum):
    """The work of one process."""

    SUPERVISOR = "supervisor"
    CORE = "core"
    WORKER = "worker"
    RECORDER = "recorder"
    EXPORTER = "exporter"
    SPARE = "spare"  # it waits for the role of a core or worker that dies


def process_name(role: Role, index: int = 0) -> str:
    """The name of one process: a router has several workers and at most one process of each other role."""
    return f"{role}-{index}" if role == Role.WORKER else str(role)


def is_worker(process: str) -> bool:
    """Whether that is the name of a worker."""
    return process.startswith(f"{Role.WORKER}-")
