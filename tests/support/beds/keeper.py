"""Who keeps the configuration that an agent in a test serves and changes: the supervisor's part of it."""

from typing import Any

from core.management.agent import Agent
from routerd.config import Config
from routerd.reload.changes import ChangeError, changed
from routerd.translate.delta import deltas
from routerd.translate.identities import Identities
from routerd.translate.management import management
from shm.contract.control import ChangeReply, ChangeRequest
from shm.contract.management import Management


class Keeper:
    """Does what is asked as the supervisor would, and tells the agent; nothing listens or connects."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.identities = Identities()
        self.agent: Agent | None = None

    def management(self) -> Management:
        return management(self.config, self.identities)

    def change(self, operation: str, kind: str, identity: str, attributes: dict[str, Any]) -> ChangeReply:
        try:
            new = changed(self.config, ChangeRequest(1, operation, kind, identity, attributes), self.identities)
        except ChangeError as error:
            return ChangeReply(1, error.status, str(error))
        before, self.config = self.management(), new.config
        assert self.agent is not None
        self.agent.change(deltas(before, self.management()))
        named = self.identities.of(at.entity for at in new.config.checked)
        identity = named[new.config.checked.index(new.entity)] if new.entity else ""
        return ChangeReply(1, new.status, "; ".join(new.remarks), identity)
