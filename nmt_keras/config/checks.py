"""Checks of configuration fields, and records built from JSON objects."""

from __future__ import annotations

import dataclasses
import typing
from difflib import get_close_matches
from typing import Any, TypeVar

Record = TypeVar("Record")


def require(ok: bool, where: str, expected: str, received: object) -> None:
    """Raises ValueError in the project's one form unless ``ok``: the field, what was expected, what came."""
    if not ok:
        raise ValueError(f"{where}: expected {expected}, received {received!r}.")


def require_choice(where: str, choices: typing.Sequence[str], received: str) -> None:
    """Raises ValueError unless ``received`` is one of ``choices``; names the nearest."""
    if received not in choices:
        nearest = get_close_matches(str(received), choices, n=1)
        hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
        raise ValueError(f"{where}: expected one of {', '.join(choices)}; received {received!r}.{hint}")


def choices(kind: type) -> dict[str, tuple[str, ...]]:
    """Returns the allowed values of each field of a configuration that is annotated with a ``Literal``."""
    hints = typing.get_type_hints(kind)
    return {name: typing.get_args(hint) for name, hint in hints.items() if typing.get_origin(hint) is typing.Literal}


def require_choices(record: Any) -> None:
    """Raises ValueError unless each field that is annotated with a ``Literal`` holds one of its values."""
    for name, allowed in choices(type(record)).items():
        require_choice(f"{type(record).__name__}.{name}", allowed, getattr(record, name))


def require_positive(record: Any, *names: str) -> None:
    """Raises ValueError unless each named field of a configuration is a whole number of at least 1."""
    for name in names:
        value = getattr(record, name)
        whole = isinstance(value, int) and not isinstance(value, bool)
        require(whole and value >= 1, f"{type(record).__name__}.{name}", "a whole number of at least 1", value)


def nearest_multiple(size: float, of: int) -> int:
    """The multiple of ``of`` nearest to ``size``, at least ``of`` itself."""
    return max(of, of * round(size / of))


def record_from(kind: type[Record], fields: dict[str, Any]) -> Record:
    """``kind`` with ``fields``, where nested objects become the dataclasses that its annotations name."""
    if not isinstance(fields, dict):
        raise TypeError(f"{kind.__name__} is an object, received {fields!r:.40}")
    hints = typing.get_type_hints(kind)
    nested = {k: record_from(hints[k], v) if dataclasses.is_dataclass(hints.get(k)) else v for k, v in fields.items()}
    return kind(**nested)
