"""Checks of configuration fields, and conversion of JSON objects to dataclasses."""

import dataclasses
import math
import re
import typing
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from nmt_keras.io.errors import require, require_choice

Record = TypeVar("Record")


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


class Rule(NamedTuple):
    """A condition on several fields of a configuration."""

    fields: str  # names with their classes, such as "DecoderConfig.units"; a comma separates several
    expected: str  # valid values; names of fields in braces are replaced by their values
    holds: Callable[..., bool]  # of the configuration
    hint: str = ""


def require_rules(record: Any, rules: Iterable[Rule]) -> None:
    """Raises ValueError unless all rules hold. Their fields are those of a configuration and of its direct parts."""
    parts = {type(part).__name__: part for part in (record, *vars(record).values())}
    for rule in rules:
        received = {
            name: getattr(parts[name.partition(".")[0]], name.partition(".")[2]) for name in rule.fields.split(", ")
        }
        shown = tuple(received.values()) if len(received) > 1 else received[rule.fields]
        require(rule.holds(record), rule.fields, rule.expected.format(**vars(record)), shown, rule.hint)


REMOVED: dict[str, dict[str, object]] = {
    "EncoderConfig": {"merge": "concatenate", "residual": False},
    "DecoderConfig": {"residual": False},
    "TrainConfig": {"plateau_factor": 0.5, "segmentation_alpha": None, "segmentations": 16, "weight_decay": 0.01},
    "SearchConfig": {"shortlist": 0, "temperature": 0.0, "top_k": None, "top_p": 1.0, "seed": 1},
    "Progress": {"reductions": 0},
    "CorpusOptions": {"accept_other_version": False},
}
"""Removed fields of records, by class. The value is the former default, which files still hold."""


def without_removed(kind: type, fields: dict[str, Any], where: str = "") -> dict[str, Any]:
    """Returns the fields of a stored record without those in ``REMOVED``.

    Args:
        kind: Class of the record. The removed fields of its base classes are included.
        fields: Values by field name.
        where: Prefix of the field names in errors; see ``record_from``.

    Raises:
        ValueError: a removed field has another value than its former default.
    """
    removed = {name: value for each in kind.__mro__ for name, value in REMOVED.get(each.__name__, {}).items()}
    for name, value in fields.items():
        if name in removed and value != removed[name]:
            raise ValueError(
                f"{where}{name}: there is no such field any more. Expected its former default, {removed[name]!r}, "
                f"received {value!r}. Remove the field, or use the version of nmt_keras that wrote it."
            )
    return {name: value for name, value in fields.items() if name not in removed}


_WRITTEN = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text in quotation marks",
    type(None): "null",
}


def record_from(kind: type[Record], fields: object, where: str = "") -> Record:
    """Returns the dataclass ``kind`` with the values ``fields``, as read from JSON or YAML.

    Nested objects become dataclasses, and lists become tuples, as the type hints declare. A whole number is also
    accepted where the hint is ``float``. All other values must have the type of the hint.

    Args:
        kind: The dataclass.
        fields: Values by field name. Fields that are left out have their defaults. See ``without_removed`` for
            fields of earlier versions.
        where: Prefix of the field names in errors, such as ``train.``; empty at the top.

    Raises:
        ValueError: a field is unknown, missing or invalid. The message gives its name as in the file.
    """
    if not isinstance(fields, dict):
        raise ValueError(
            f"{where.rstrip('.') or kind.__name__}: expected an object with fields, received {fields!r:.40}."
        )
    hints, values = typing.get_type_hints(kind), {}
    nested = {name: hint for name, hint in hints.items() if isinstance(hint, type) and dataclasses.is_dataclass(hint)}
    for name, value in without_removed(kind, fields, where).items():
        require_choice(f"{where}{name}", tuple(hints), name)
        if name in nested:
            values[name] = record_from(nested[name], value, f"{where}{name}.")
        else:
            values[name] = _checked(value, hints[name], f"{where}{name}")
    for each in dataclasses.fields(typing.cast(Any, kind)):
        has_default = each.default is not dataclasses.MISSING or each.default_factory is not dataclasses.MISSING
        require(has_default or each.name in values, f"{where}{each.name}", "a value", None, "Add the field.")
    try:
        return kind(**values)
    except ValueError as error:
        prefixes = {kind.__name__: where, **{hint.__name__: f"{where}{name}." for name, hint in nested.items()}}
        classes = rf"\b({'|'.join(prefixes)})\."
        raise ValueError(re.sub(classes, lambda found: prefixes[found[1]], str(error))) from error


def _checked(value: Any, hint: Any, where: str) -> Any:
    """Returns ``value``, with a tuple in place of a list. Raises ValueError if its type is not that of ``hint``."""
    from typeguard import TypeCheckError, check_type  # imported here so that `nmt --help` is fast

    if typing.get_origin(hint) is typing.Literal:  # checked by the dataclass, which suggests the nearest choice
        return value
    kinds = typing.get_args(hint) or (hint,)
    is_bool, is_finite = isinstance(value, bool), not isinstance(value, float) or math.isfinite(value)
    if is_finite and (bool in kinds or not is_bool):  # for typeguard, a bool is a number
        with suppress(TypeCheckError):
            return check_type(tuple(value) if isinstance(value, list) else value, hint)
    expected = " or ".join(_WRITTEN.get(each, str(each)) for each in kinds)
    is_quoted = isinstance(value, str) and re.fullmatch(r"[-+.\deE]+|true|false|null", value)
    whole = f"Write {value:.0f}." if isinstance(value, float) and value.is_integer() else ""
    remedy = "Write it without quotation marks." if is_quoted else whole
    raise ValueError(f"{where}: expected {expected}, received {value!r}. {remedy}".rstrip())
