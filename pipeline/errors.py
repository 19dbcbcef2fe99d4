"""What is wrong outside of the pipeline, in one sentence for its user."""


class PipelineError(Exception):
    """Bad input, a missing program, a directory that cannot be used: says what, why, and what to do."""
