"""Options in the types that the extension takes, and errors for names that do not exist."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any

from . import _diffmj
from ._errors import InputError


def option_value(who: str, info: _diffmj.OptionInfo, value: Any) -> Any:
    """The value in the type that the extension takes, or InputError."""
    try:
        if info.kind == "flag":
            return bool(value)
        if info.kind == "choice":
            return str(value)
        if info.kind == "number":
            return float(value)
        if info.kind == "integer":
            number = operator.index(value)
            if -(2**63) <= number < 2**63:
                return number
        else:
            numbers = [float(x) for x in value]
            if len(numbers) == len(info.parts):
                return numbers
    except (TypeError, ValueError):
        pass
    raise InputError(f"{who}: {info.name} is {value!r}, expected {info.expected}")


def named_values(
    who: str, options: Iterable[_diffmj.OptionInfo], given: Mapping[str, Any]
) -> list[tuple[str, Any]]:
    """The options that are not None, as the extension takes them."""
    return [
        (info.name, option_value(who, info, given[info.name]))
        for info in options
        if given.get(info.name) is not None
    ]


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """The end of an error about a name that does not exist; empty if no known name is similar."""
    nearest = _diffmj.nearest_name(name, sorted(known)) if isinstance(name, str) else ""
    return f"; did you mean '{nearest}'?" if nearest else ""


def reject_unknown(who: str, unknown: Mapping[str, Any], known: Iterable[str]) -> None:
    """TypeError for a keyword that does not exist, with the name that was probably meant."""
    for name, value in unknown.items():
        if name == "path":
            raise TypeError(f"{who}: path was renamed; use gradient_path={value!r}")
        hint = did_you_mean(name, known)
        raise TypeError(f"{who} got an unexpected keyword argument '{name}'{hint}")


def field_names(record: type) -> frozenset[str]:
    """The fields of a struct of options of the extension."""
    return frozenset(x for x in vars(record) if not x.startswith("_"))


def filled(who: str, record: Any, given: Mapping[str, Any]) -> Any:
    """The struct of options with the given fields that are not None; others keep their defaults.

    The extension checks ranges when the options are used.
    """
    for name, value in given.items():
        if value is None:
            continue
        default = getattr(record, name)
        try:
            if isinstance(default, bool):
                setattr(record, name, bool(value))
            elif isinstance(default, int):
                setattr(record, name, operator.index(value))
            elif isinstance(default, float):
                setattr(record, name, float(value))
            else:
                setattr(record, name, value)
        except InputError:
            raise
        except (TypeError, ValueError, OverflowError):
            expected = _kind(default, value)
            raise InputError(f"{who}: {name} is {value!r}, expected {expected}") from None
    return record


def _kind(default: Any, value: Any) -> str:
    if isinstance(default, str):
        return "a name"
    if not isinstance(default, int):
        return "a number"
    if isinstance(value, int):  # the type of the field in C++ does not hold it
        return "an integer ≥ 0" if value < 0 else "a smaller integer"
    return "an integer"


def to_pair(who: str, name: str, values: Any) -> tuple[float, float]:
    """Two numbers, or InputError."""
    try:
        first, second = (float(x) for x in values)
    except (TypeError, ValueError):
        raise InputError(f"{who}: {name} is {values!r}, expected two numbers") from None
    return first, second
