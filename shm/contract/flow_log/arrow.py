"""The flow log's schema in Arrow's types, in which the recorder writes and the pipeline reads it."""

from typing import Any, Final

import pyarrow as pa

from shm.contract.flow_log.schema import COLUMNS

_TYPES: Final[dict[str, Any]] = {
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "dictionary": pa.dictionary(pa.int32(), pa.string()),  # readers get strings
    "binary": pa.binary(),
    "trace": pa.binary(16),
    "span": pa.binary(8),
    "histogram": pa.list_(pa.struct([("b", pa.int16()), ("n", pa.int64())])),
}

SCHEMA: Final = pa.schema([pa.field(c.name, _TYPES[c.type], nullable=c.nullable) for c in COLUMNS])
