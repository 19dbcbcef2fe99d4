"""The configuration of the router: one entity model, three spellings (.conf, .json, .toml), one check."""

from routerd.config.entities.policy import Policy
from routerd.config.entities.router import Log, Router
from routerd.config.entities.routing import Address
from routerd.config.entities.transport import Listener
from routerd.config.formats.source import ConfigError, Mistake
from routerd.config.load import Config, default_config, load, parse

__all__ = [
    "Address", "Config", "ConfigError", "Listener", "Log", "Mistake", "Policy", "Router", "default_config",
    "load", "parse",
]  # fmt: skip
