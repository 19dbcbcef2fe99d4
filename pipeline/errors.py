"""Errors outside of the pipeline, each in one sentence for its user."""

from typing import Final

UNUSABLE: Final = 78  # EX_CONFIG of sysexits.h


class PipelineError(Exception):
    """Bad input, a missing program, an unusable directory: the text says what, why, and what to do."""

    status = 1  # of a command that ends with it


class UnusableError(PipelineError):
    """Starting again does not help before somebody has done what the text says."""

    status = UNUSABLE


class DeletedError(PipelineError):
    """A file was deleted while the log was read: to start again helps."""
