"""Spark looks for modules of this kind of name: with it `spark.read.format("routerd")` works unregistered."""

import routerd  # noqa: F401  it knows where an installed pipeline is
from pipeline.flow_log.source import FlowLog as DefaultSource

__all__ = ["DefaultSource"]
