"""Converts the text or JSON value of an attribute to the value that its declaration demands.

Every function raises `WrongValueError` with a sentence that says what is wrong and what to give instead.
"""

import math
import os
import re
from collections.abc import Callable, Iterator

from routerd.config.entities.attribute import Attribute, Kind
from routerd.config.entities.transport import SERVICE_PORTS, port_number
from routerd.config.formats.closest import closest
from routerd.config.formats.source import Array, Block, Value, plain, shown
from routerd.log.log import LEVELS, parse_enable
from routerd.machine.allowance import cpu_limit

TRUE = ("yes", "true", "on")
FALSE = ("no", "false", "off")
FORMER = {"on-demand": "route-container"}  # values of early versions of qdrouterd
MAX_CPU = 4095  # the largest CPU number of a Linux kernel; it bounds ranges
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)


class WrongValueError(ValueError):
    """A value does not fit its attribute."""


def convert(attribute: Attribute, value: Value) -> object:
    """Return an attribute's value after checks against its declaration; not for the kind `groups`."""
    if value is None:
        raise WrongValueError(f"has no value; give {expected(attribute)}, or remove it")
    if isinstance(value, str) and "\0" in value:
        raise WrongValueError(f"{shown(value)} contains a NUL; give {expected(attribute)} without one")
    return _CONVERTERS[attribute.kind](attribute, value)


def expected(attribute: Attribute) -> str:
    """Return what an attribute takes in words, for messages and documentation."""
    if attribute.kind == "enum":
        return f"one of {', '.join(attribute.choices)}"
    if attribute.kind == "integer":
        return f"a whole number{_bounds(attribute)}"
    if attribute.kind == "workers":
        return f"a whole number{_bounds(attribute)} or auto"
    return {
        "boolean": "yes or no",
        "string": "text",
        "path": "a path",
        "port": "a port number from 0 to 65535 or a service name such as amqp",
        "cpus": "CPU numbers such as 2,3 or 2-5",
        "levels": "levels such as info+ or trace,debug,warning+",
        "map": 'a map such as {"key": "value"}',
        "groups": "a map from group name to settings",
    }[attribute.kind]


def usable_cpus() -> tuple[int, ...]:
    """Return the CPUs that this process may run on, ascending."""
    return tuple(sorted(os.sched_getaffinity(0)))


def auto_workers() -> int:
    """Return one less than the usable CPUs, so that the core has one."""
    quota = cpu_limit()
    cpus = len(usable_cpus()) if quota is None else min(len(usable_cpus()), math.ceil(quota))
    return max(cpus - 1, 1)


def _bounds(attribute: Attribute) -> str:
    if attribute.minimum is None:
        return ""
    if attribute.maximum is None:
        return f" of at least {attribute.minimum}"
    return f" from {attribute.minimum} to {attribute.maximum}"


def _string(attribute: Attribute, value: Value) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise _unfit(attribute, value)
    text = str(value)
    if not text.isprintable():
        raise WrongValueError(f"{shown(text)} contains control characters; give printable text")
    return text


def _integer(attribute: Attribute, value: Value) -> int:
    if isinstance(value, bool):
        raise _unfit(attribute, value)
    if isinstance(value, str) and _INTEGER.fullmatch(value.strip()):
        value = int(value)
    if not isinstance(value, int):
        raise _unfit(attribute, value)
    too_small = attribute.minimum is not None and value < attribute.minimum
    too_large = attribute.maximum is not None and value > attribute.maximum
    if too_small or too_large or abs(value) >= 1 << 63:
        raise WrongValueError(f"{shown(value)} is out of range; give {expected(attribute)}")
    return value


def _boolean(attribute: Attribute, value: Value) -> bool:
    if isinstance(value, bool):
        return value
    text = value.strip().lower() if isinstance(value, str) else ""
    if text in TRUE:
        return True
    if text in FALSE:
        return False
    raise _unfit(attribute, value)


def _enum(attribute: Attribute, value: Value) -> str:
    if isinstance(value, bool) and (yes_or_no := "yes" if value else "no") in attribute.choices:
        return yes_or_no
    if isinstance(value, str) and value in attribute.choices:
        return value
    guess = (FORMER.get(value) or closest(value, attribute.choices)) if isinstance(value, str) else None
    hint = f" (perhaps {guess})" if guess in attribute.choices else ""
    raise WrongValueError(f"{shown(value)} is not allowed; give {expected(attribute)}{hint}")


def _port(attribute: Attribute, value: Value) -> str:
    text = _string(attribute, value).strip()
    try:
        number = port_number(text)
    except ValueError:
        hint = f" (perhaps {guess})" if (guess := closest(text, SERVICE_PORTS)) else ""
        raise WrongValueError(f"{shown(value)} is not a port; give {expected(attribute)}{hint}") from None
    if number > 65535:
        raise WrongValueError(f"{shown(value)} is out of range; give {expected(attribute)}")
    return text


def _workers(attribute: Attribute, value: Value) -> int:
    if isinstance(value, str) and value.strip().lower() == "auto":
        return min(auto_workers(), attribute.maximum or 1)
    return _integer(attribute, value)


def _cpus(attribute: Attribute, value: Value) -> tuple[int, ...]:
    if isinstance(value, bool) or not isinstance(value, str | int | Array):
        raise _unfit(attribute, value)
    parts = value.values if isinstance(value, Array) else str(value).split(",")
    cpus: list[int] = []
    for part in parts:
        match = re.fullmatch(r"\s*([0-9]{1,4})\s*(?:-\s*([0-9]{1,4})\s*)?", _cpu_text(attribute, part), re.ASCII)
        if match is None:
            raise _unfit(attribute, value)
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last > MAX_CPU:
            raise WrongValueError(f"{shown(value)} has no ascending range up to {MAX_CPU}; give {expected(attribute)}")
        cpus.extend(range(first, last + 1))
    if len(set(cpus)) != len(cpus):
        raise WrongValueError(f"{shown(value)} names a CPU twice; give each CPU once")
    return tuple(cpus)


def _cpu_text(attribute: Attribute, part: Value) -> str:
    if isinstance(part, bool) or not isinstance(part, str | int):
        raise _unfit(attribute, part)
    return str(part)


def _levels(attribute: Attribute, value: Value) -> str:
    text = _string(attribute, value)
    try:
        parse_enable(text)
    except ValueError as error:
        guess = closest(text.rstrip("+"), LEVELS)
        raise WrongValueError(f"{error}{f' (perhaps {guess})' if guess else ''}") from None
    return text


def _map(attribute: Attribute, value: Value) -> dict[str, object]:
    if not isinstance(value, Block):
        raise WrongValueError(f"{shown(value)} does not fit. Properties must be a map; give {expected(attribute)}")
    found = {setting.name: plain(setting.value) for setting in value.settings}
    for number in _integers(found):
        if not -1 << 63 <= number < 1 << 63:
            raise WrongValueError(f"{shown(number)} does not fit 64 bits; give a smaller number")
    return found


def _integers(value: object) -> Iterator[int]:
    """Yield all integers in a map or list."""
    if isinstance(value, int):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _integers(one)


def _unfit(attribute: Attribute, value: Value) -> WrongValueError:
    return WrongValueError(f"{shown(value)} does not fit; give {expected(attribute)}")


_CONVERTERS: dict[Kind, Callable[[Attribute, Value], object]] = {
    "string": _string, "path": _string, "integer": _integer, "boolean": _boolean, "enum": _enum,
    "port": _port, "workers": _workers, "cpus": _cpus, "levels": _levels, "map": _map,
}  # fmt: skip
