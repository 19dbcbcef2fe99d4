"""Tables of results in a form in which two runs can be compared."""

import math
from typing import Any

from pipeline import batch
from pipeline.output.results import Results
from pipeline.tables.capacity import Costs

# Tables that are made from rollups; all others are made from these alone, whatever the hours of a run are.
RECIPES = batch.recipes_of(Costs())
MERGED = tuple(name for name, recipe in RECIPES.items() if recipe.needs)
SUMMED = tuple(name for name in MERGED if RECIPES[name].sums)  # what follows messages from one hour to the next
ALONE = tuple(name for name in MERGED if not RECIPES[name].sums)  # each hour is for itself


def plain(value: Any) -> Any:
    """A value that is equal for equal ones; sums of fractions differ in the last digits with the order of parts."""
    if isinstance(value, list):
        return tuple(value)
    return value if not isinstance(value, float) or math.isnan(value) else float(f"{value:.9g}")


def rows(results: Results, name: str) -> list[tuple[Any, ...]]:
    """The rows of a table in an order of their own."""
    found = [tuple(map(plain, row.values())) for row in results.read(name).toArrow().to_pylist()]
    return sorted(found, key=repr)
