"""Translates the flowLog entity into the set-up of the flow log."""

from routerd.config import Config
from routerd.config.entities.flow_log import FlowLog
from shm.contract.flow_setup import FlowSetup
from shm.space import MIB

HOUR = 3600


def flow_setup(config: Config) -> FlowSetup:
    """Return the flow log's set-up; it is off without a flowLog entity."""
    for entity in config.entities:
        if isinstance(entity, FlowLog):
            return FlowSetup(
                directory=entity.directory,
                sampling=entity.sampling,
                roll_bytes=entity.roll_size * MIB,
                roll_seconds=entity.roll_age,
                keep_bytes=entity.retention_size * MIB,
                keep_seconds=entity.retention_age * HOUR,
                compaction=entity.compaction,
                raw_seconds=entity.raw_age * HOUR,
                transactions=entity.transactions,
            )
    return FlowSetup()
