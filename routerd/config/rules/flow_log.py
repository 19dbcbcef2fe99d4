"""Rules of the flowLog entity."""

import os
from collections.abc import Iterator
from importlib.util import find_spec

from routerd.config.entities.flow_log import FlowLog
from routerd.config.formats.source import Mistake, shown
from routerd.config.rules.check import Checked, each


def check_flow_log(checked: list[Checked]) -> Iterator[Mistake]:
    """Yield mistakes in the flowLog entity."""
    for at, log in each(checked, FlowLog):
        if find_spec("pyarrow") is None:
            yield at.mistake(
                "",
                "the flow log is written with pyarrow, which is not installed: on Debian install routerd-flowlog, "
                "elsewhere give pip 'routerd[flowlog]'",
            )
        if not os.path.isabs(log.directory):
            yield at.mistake("directory", f"{shown(log.directory)} is not an absolute path; begin it with /")
        if 0 < log.retention_size < 2 * log.roll_size:
            yield at.mistake(
                "retentionSize",
                f"{log.retention_size} MiB are less than two files of rollSize, {log.roll_size} MiB each; "
                f"give at least {2 * log.roll_size}, or a smaller rollSize",
            )
        if "rawAge" in at.lines and not log.compaction:
            yield at.mistake("rawAge", "has no effect without compaction: yes; set that, or remove this", warning=True)
        if 0 < log.retention_age < log.raw_age and log.compaction and "rawAge" in at.lines:
            yield at.mistake(
                "rawAge", f"{log.raw_age} hours are more than retentionAge, {log.retention_age}; give less"
            )
