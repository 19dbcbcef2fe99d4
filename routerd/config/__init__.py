"""The configuration of the router: one entity model, three spellings (.conf, .json, .toml), one check."""

from routerd.config.load import Config, default_config, load, parse
from routerd.config.policy import Policy
from routerd.config.router import Log, Router
from routerd.config.routing import Address
from routerd.config.source import ConfigError, Mistake
from routerd.config.transport import Listener

__all__ = [
    "Address", "Config", "ConfigError", "Listener", "Log", "Mistake", "Policy", "Router", "default_config",
    "load", "parse",
]  # fmt: skip
