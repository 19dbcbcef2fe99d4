"""The output of a stream: a directory for each day of UTC, which is what the output of a run is.

    _routerd_stream      the marker
    date=YYYY-MM-DD/     the results of a day: `_routerd_day`, run-ID, rollup-ID and `current` (`generations`)

A day that goes loses `current` first, so that readers find nothing rather than a part. Only what the stream made goes:
a day in which somebody put something keeps that, and its marker.
"""

import re
from datetime import UTC, date, datetime, timedelta
from typing import Final

from pyarrow import fs

from pipeline.errors import PipelineError
from pipeline.files import below
from pipeline.output import rollups
from pipeline.output.directory import DAY, ID, STREAM, Output
from pipeline.output.generations import CURRENT, HALF, HOLDS, RUN, SIGNS, current, pointed
from pipeline.output.rollups import ROLLUP

FORM: Final = re.compile(r"date=(\d{4}-\d\d-\d\d)")
GONE: Final = rf"gone-{ID}"


def of(output: Output, day: str) -> str:
    """Return the directory of a day, such as 2026-01-05."""
    return below(output.directory, f"date={day}")


def days(output: Output) -> list[str]:
    """Return the days that a stream has made, in order."""
    there = output.entries()
    found = (FORM.fullmatch(name) for name, kind in there.items() if kind == fs.FileType.Directory)
    return sorted(one[1] for one in found if one and Output(of(output, one[1])).belongs(DAY))


def first_kept(newest: str, today: date, keep: int) -> str:
    """Return the first of so many days that stay; the newest is the last one, unless it is in the future."""
    return date.fromordinal(max(1, min(date.fromisoformat(newest), today).toordinal() - keep + 1)).isoformat()


def remove(output: Output, day: str) -> bool:
    """Remove what the stream made of a day; return whether nothing is left.

    Raises ``PipelineError`` if its `current` is not ours.
    """
    place = Output(of(output, day))
    if pointed(place):
        place.files.delete_file(place.path(CURRENT))
    for pattern, holds in ((RUN, HOLDS), (ROLLUP, rollups.HOLDS), (HALF, "")):
        place.sweep(pattern, holds)
    for name, sign in SIGNS.items():
        if place.entries().get(name) == fs.FileType.File and place.starts(name, sign):
            place.files.delete_file(place.path(name))
    if set(place.entries()) != {DAY.marker}:
        return False
    if output.renames:  # so that nobody ever finds it without its marker
        gone = output.fresh("gone")
        output.files.move(place.root, output.path(gone))
        sweep(output)
    else:
        output.files.delete_dir(place.root)
    return True


def day_before(directory: str) -> str:
    """Return the directory of the day before, of a day of a stream; "" if it has no whole results."""
    output = Output(directory)
    form = FORM.fullmatch(output.root.rpartition("/")[2])
    if form is None or not output.belongs(DAY):
        return ""
    day = (date.fromisoformat(form[1]) - timedelta(days=1)).isoformat()
    path, question, options = directory.partition("?") if "://" in directory else (output.root, "", "")
    there = f"{path.rstrip('/').rpartition('/')[0]}/date={day}{question}{options}"
    try:
        current(there)
    except PipelineError:
        return ""
    return there


def sweep(output: Output) -> None:
    """Remove what a killed stream was removing."""
    output.sweep(GONE, re.escape(DAY.marker))


def results_in(directory: str) -> str:
    """Return the directory with the results: of a stream's output that of the last day that has some.

    A day in the future, of a router whose clock is wrong, is that only if there is no other.
    Raises ``PipelineError`` if there is none yet.
    """
    output = Output(directory)
    if not output.belongs(STREAM):
        return directory
    there, today = days(output), datetime.now(UTC).date().isoformat()
    for day in (*(day for day in reversed(there) if day <= today), *(day for day in there if day > today)):
        if pointed(Output(of(output, day))):
            return of(output, day)
    raise PipelineError(f"{directory} holds no results yet: the first batch of the stream has not ended")
