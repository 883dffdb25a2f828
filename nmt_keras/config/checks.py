"""Checks of configuration fields, and conversion of JSON objects to dataclasses."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, TypeVar

Record = TypeVar("Record")


def require(ok: bool, where: str, expected: str, received: object, hint: str = "") -> None:
    """Raises ValueError if ``ok`` is ``False``.

    Args:
        ok: Result of the check.
        where: Name of the field or option.
        expected: Description of valid values.
        received: The invalid value.
        hint: Reason or remedy, as whole sentences at the end of the message.
    """
    if not ok:
        raise ValueError(f"{where}: expected {expected}, received {received!r}. {hint}".rstrip())


def require_choice(where: str, choices: typing.Sequence[str], received: str) -> None:
    """Raises ValueError if ``received`` is not one of ``choices``. The message suggests the nearest choice."""
    if received not in choices:
        nearest = get_close_matches(str(received), choices, n=1)
        hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
        raise ValueError(f"{where}: expected one of {', '.join(choices)}; received {received!r}.{hint}")


def choices(kind: type) -> dict[str, tuple[str, ...]]:
    """Returns the allowed values of a configuration's ``Literal`` fields, by field name."""
    hints = typing.get_type_hints(kind)
    return {name: typing.get_args(hint) for name, hint in hints.items() if typing.get_origin(hint) is typing.Literal}


def require_choices(record: Any) -> None:
    """Raises ValueError unless each ``Literal`` field of a configuration has one of its allowed values."""
    for name, allowed in choices(type(record)).items():
        require_choice(f"{type(record).__name__}.{name}", allowed, getattr(record, name))


def require_each(record: Any, holds: Callable[[Any], bool], expected: str, *names: str) -> None:
    """Raises ValueError unless all fields in ``names`` satisfy ``holds``. ``expected`` describes the condition."""
    for name in names:
        value = getattr(record, name)
        require(holds(value), f"{type(record).__name__}.{name}", expected, value)


def require_positive(record: Any, *names: str) -> None:
    """Raises ValueError unless each field in ``names`` is a whole number of at least 1."""
    require_each(record, lambda value: type(value) is int and value >= 1, "a whole number of at least 1", *names)


def nearest_multiple(size: float, of: int) -> int:
    """Returns the positive multiple of ``of`` that is nearest to ``size``."""
    return max(of, of * round(size / of))


def record_from(kind: type[Record], fields: dict[str, Any]) -> Record:
    """Returns the dataclass ``kind`` with ``fields``. Nested objects become dataclasses, as the type hints declare."""
    if not isinstance(fields, dict):
        raise TypeError(f"{kind.__name__}: expected an object, received {fields!r:.40}")
    hints = typing.get_type_hints(kind)
    for name in fields:
        if name not in hints:
            nearest = get_close_matches(str(name), hints, n=1)
            hint = f" (nearest: {nearest[0]})" if nearest else ""
            raise TypeError(f"{kind.__name__} has no field {name!r}{hint}")
    nested = {k: record_from(hints[k], v) if dataclasses.is_dataclass(hints.get(k)) else v for k, v in fields.items()}
    return kind(**nested)
