"""Errors outside of the pipeline, each in one sentence for its user."""


class PipelineError(Exception):
    """Bad input, a missing program, an unusable directory: the text says what, why, and what to do."""


class DeletedError(PipelineError):
    """A file was deleted while the log was read: to start again helps."""
