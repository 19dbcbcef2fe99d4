"""Attributes of a request against the schema of their entity type."""

from typing import Any

from core.management.request import BAD_REQUEST, ManagementError
from shm.management import AttributeSchema, TypeSchema

_BOOLEANS = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}
_IGNORED = frozenset({"type", "identity"})


def checked(schema: TypeSchema, given: dict[str, Any], operation: str) -> dict[str, Any]:
    """The attributes with their values converted, and defaults for those left out. Raises ManagementError."""
    attributes = {a.name: a for a in schema.attributes}
    values: dict[str, Any] = {}
    for name, value in given.items():
        attribute = attributes.get(name)
        if name in _IGNORED and (name == "type" or value is None):
            continue
        if attribute is None:
            raise ManagementError(BAD_REQUEST, f"{schema.name} has no attribute {name!r}")
        allowed = attribute.create if operation == "CREATE" else attribute.update
        if not allowed:
            raise ManagementError(BAD_REQUEST, f"{name} of {schema.name} cannot be set by {operation}")
        if value is not None:
            values[name] = _value(attribute, value)
    if operation == "CREATE":
        missing = [a.name for a in schema.attributes if a.required and a.name not in values]
        if missing:
            raise ManagementError(BAD_REQUEST, f"{', '.join(missing)} of {schema.name} must be given")
        defaults = {a.name: a.default for a in schema.attributes if a.create and a.default is not None}
        values = defaults | values
    return values


def _value(attribute: AttributeSchema, value: Any) -> Any:
    name, kind = attribute.name, attribute.kind
    if kind == "boolean":
        if isinstance(value, str):
            value = _BOOLEANS.get(value.lower(), value)
        if not isinstance(value, bool):
            raise ManagementError(BAD_REQUEST, f"{name}: {value!r} is neither true nor false")
        return value
    if kind == "integer":
        return _integer(attribute, value)
    if kind == "map":
        if not isinstance(value, dict):
            raise ManagementError(BAD_REQUEST, f"{name}: {value!r} is no map")
        return value
    if isinstance(value, int) and not isinstance(value, bool) and not attribute.choices:
        value = str(value)  # a port may be given by its number
    if not isinstance(value, str):
        raise ManagementError(BAD_REQUEST, f"{name}: {value!r} is no string")
    if attribute.choices and value not in attribute.choices:
        raise ManagementError(BAD_REQUEST, f"{name}: {value!r} is none of {', '.join(attribute.choices)}")
    return str(value)


def _integer(attribute: AttributeSchema, value: Any) -> int:
    if isinstance(value, str) and value.removeprefix("-").isdecimal() and len(value) < 20:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ManagementError(BAD_REQUEST, f"{attribute.name}: {value!r} is no whole number")
    low, high = attribute.minimum, attribute.maximum
    if (low is not None and value < low) or (high is not None and value > high):
        least = "" if low is None else f"at least {low}"
        most = "" if high is None else f"at most {high}"
        bounds = " and ".join(part for part in (least, most) if part)
        raise ManagementError(BAD_REQUEST, f"{attribute.name}: {value} is out of range; give {bounds}")
    return int(value)
