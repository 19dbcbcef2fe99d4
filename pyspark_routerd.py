"""Spark looks for modules of this kind of name: with it `spark.read.format("routerd")` works unregistered."""

from pipeline.flow_log.source import FlowLog as DefaultSource

__all__ = ["DefaultSource"]
