"""What tests of the pipeline share: logs, outputs and reports made without Spark."""
