"""OpenLineage: a run says what it read and wrote, if the environment configures where to, as by OPENLINEAGE_URL."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlsplit

from pipeline.errors import PipelineError
from pipeline.output.columns import TABLES
from pipeline.output.generations import Generation

JOB: Final = "routerd.pipeline.run"
PRODUCER: Final = "https://routerd.invalid/pipeline"  # the standard wants a URL
SETTING: Final = "OPENLINEAGE_"

Made = Callable[[Generation], None]


@contextmanager
def told(source: str, output: str, warn: Callable[[str], None]) -> Iterator[Made]:
    """Tell of the beginning of a run, and of its end; the caller passes the results, if there are any.

    An event that does not arrive is a warning: results matter more. Raises ``PipelineError`` if events are configured,
    and the library is missing.
    """
    if not any(name.startswith(SETTING) for name in os.environ):
        yield lambda made: None
        return
    events = _Events(source, output, warn)
    events.emit("START")
    try:
        yield events.take
    except BaseException as error:
        events.emit("FAIL", error)
        raise
    events.emit("COMPLETE")


class _Events:
    """The events of one run."""

    def __init__(self, source: str, output: str, warn: Callable[[str], None]) -> None:
        try:
            from openlineage.client import OpenLineageClient, event_v2, facet_v2, uuid  # noqa: PLC0415  optional
        except ModuleNotFoundError as error:
            raise PipelineError(
                "the environment configures OpenLineage, and its library is missing: pip install openlineage-python, "
                f"or unset the variables {SETTING}…"
            ) from error
        self._events: Any = event_v2
        self._facets: Any = facet_v2
        self._warn = warn
        self._client = OpenLineageClient()
        self._run = str(uuid.generate_new_uuid())
        self._source, self._output = source, output
        self._made: Generation | None = None

    def take(self, made: Generation) -> None:
        """Take the results of the run."""
        self._made = made

    def emit(self, state: str, error: BaseException | None = None) -> None:
        """Send an event, or warn."""
        facets = {}
        if error is not None:
            facets["errorMessage"] = self._facets.error_message_run.ErrorMessageRunFacet(str(error), "python")
        event = self._events.RunEvent(
            eventType=self._events.RunState[state],
            eventTime=datetime.now(UTC).isoformat(),
            run=self._events.Run(self._run, facets),
            job=self._events.Job("routerd", JOB),
            inputs=[self._events.InputDataset(*named(self._source))],
            outputs=self._tables(),
            producer=PRODUCER,
        )
        try:
            self._client.emit(event)
        except Exception as problem:
            self._warn(f"OpenLineage was not told of {state}: {str(problem) or type(problem).__name__}")

    def _tables(self) -> list[Any]:
        if self._made is None:
            return []
        space, name = named(self._output)
        found = []
        for table in self._made.summary()["tables"]:
            fields = [
                self._facets.schema_dataset.SchemaDatasetFacetFields(one.name, one.type, one.meaning)
                for one in TABLES[table].columns
            ]
            rows = self._facets.output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
                rowCount=self._made.rows(table)
            )
            facets = {"schema": self._facets.schema_dataset.SchemaDatasetFacet(fields)}
            found.append(
                self._events.OutputDataset(
                    space, f"{name}/{table}", outputFacets={"outputStatistics": rows}, facets=facets
                )
            )
        return found


def named(directory: str) -> tuple[str, str]:
    """Return the namespace and name of a directory, by OpenLineage's naming of data sets."""
    if "://" not in directory:
        return "file", os.path.abspath(directory)
    url = urlsplit(directory)
    return f"{url.scheme.replace('s3a', 's3')}://{url.netloc}", url.path.strip("/") or "/"
