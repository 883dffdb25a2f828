"""Checks of configuration fields, and conversion of JSON objects to dataclasses."""

import dataclasses
import math
import re
import typing
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Annotated, Any, NamedTuple, TypeVar

from nmt_keras.io.errors import require, require_choice

Record = TypeVar("Record")


class Bound(NamedTuple):
    """A condition on the value of a field, as an annotation of its type hint. None always satisfies it."""

    expected: str  # valid values
    holds: Callable[[Any], bool]


# of all fields, because NumPy and TensorFlow raise errors of many types for larger numbers
_SMALL = Bound("from -2^31 to 2^31", lambda value: not isinstance(value, int | float) or abs(value) <= 2**31)
NOT_NEGATIVE = Bound("0 or more", lambda value: value >= 0)

Count = Annotated[int, Bound("a whole number of at least 1", lambda value: value >= 1)]
TokenLimit = Annotated[int, Bound("at least 2 (one token and END)", lambda value: value >= 2)]
Positive = Annotated[float, Bound("a positive number", lambda value: value > 0)]
Rate = Annotated[float, Bound("in [0, 1)", lambda value: 0.0 <= value < 1.0)]
Share = Annotated[float, Bound("in [0, 1]", lambda value: 0.0 <= value <= 1.0)]


def choices(kind: type) -> dict[str, tuple[str, ...]]:
    """Returns the allowed values of a configuration's ``Literal`` fields, by field name."""
    hints = typing.get_type_hints(kind)
    return {name: typing.get_args(hint) for name, hint in hints.items() if typing.get_origin(hint) is typing.Literal}


_WRITTEN = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text in quotation marks",
    type(None): "null",
    tuple[str, ...]: "a tuple of texts",
}


def require_types(record: Any) -> None:
    """Raises ValueError unless each field of a configuration has a value of the type that its hint declares.

    Numbers must be finite, from -2^31 to 2^31, and satisfy the bounds of the hint. A whole number is also accepted
    where the hint is ``float``.
    """
    for name, (hint, bounds) in _declared(record.__class__).items():
        value, where = getattr(record, name), f"{type(record).__name__}.{name}"
        if typing.get_origin(hint) is typing.Literal:
            require_choice(where, typing.get_args(hint), value)
        elif not _has_type(value, hint):
            kinds = (hint,) if hint in _WRITTEN else typing.get_args(hint) or (hint,)
            expected = " or ".join(
                _WRITTEN.get(each) or ", ".join(typing.get_args(each)) or each.__name__ for each in kinds
            )
            is_quoted = isinstance(value, str) and re.fullmatch(r"[-+.\deE]+|true|false|null", value)
            whole = f"Write {value:.0f}." if isinstance(value, float) and value.is_integer() else ""
            require(False, where, expected, value, "Write it without quotation marks." if is_quoted else whole)
        for bound in (*bounds, _SMALL):
            require(value is None or bound.holds(value), where, bound.expected, value)


@cache  # recipes create many configurations when they are imported
def _declared(kind: type) -> dict[str, tuple[Any, list[Bound]]]:
    """Returns the type and the bounds of each field."""
    bounded = typing.get_type_hints(kind, include_extras=True)
    return {name: (hint, list(_bounds_of(bounded[name]))) for name, hint in typing.get_type_hints(kind).items()}


def _bounds_of(hint: Any) -> Iterator[Bound]:
    for part in typing.get_args(hint):
        if isinstance(part, Bound):
            yield part
        yield from _bounds_of(part)


def _has_type(value: object, hint: Any) -> bool:
    kinds = typing.get_args(hint)
    if typing.get_origin(hint) is typing.Literal:
        return value in kinds
    if typing.get_origin(hint) is tuple:
        return isinstance(value, tuple) and all(isinstance(each, kinds[0]) for each in value)
    if kinds:
        return any(_has_type(value, each) for each in kinds)
    is_finite = not isinstance(value, float) or math.isfinite(value)
    is_bool = isinstance(value, bool)  # for Python, a bool is an int
    return is_finite and isinstance(value, int | float if hint is float else hint) and (hint is bool or not is_bool)


class Rule(NamedTuple):
    """A condition on several fields of a configuration."""

    fields: str  # names with their classes, such as "DecoderConfig.units"; a comma separates several
    expected: str  # valid values; names of fields in braces are replaced by their values
    holds: Callable[..., bool]  # of the configuration
    hint: str = ""


def require_rules(record: Any, rules: Iterable[Rule]) -> None:
    """Raises ValueError unless all rules hold. Their fields are those of a configuration and of its direct parts."""
    parts = {kind.__name__: part for part in (record, *vars(record).values()) for kind in type(part).__mro__}
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
        require(
            name not in removed or value == removed[name],
            f"{where}{name}",
            f"the former default of this removed field, {removed.get(name)!r}",
            value,
            "Remove the field, or use the version of nmt_keras that wrote it.",
        )
    return {name: value for name, value in fields.items() if name not in removed}


def record_from(kind: type[Record], fields: object, where: str = "") -> Record:
    """Returns the dataclass ``kind`` with the values ``fields``, as read from JSON or YAML.

    Nested objects become dataclasses, and lists become tuples, as the type hints declare. The dataclass checks the
    values; see ``require_types``.

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
    hints: dict[str, Any] = typing.get_type_hints(kind)
    values: dict[str, Any] = {}
    nested = {name: hint for name, hint in hints.items() if isinstance(hint, type) and dataclasses.is_dataclass(hint)}
    for name, value in without_removed(kind, fields, where).items():
        require_choice(f"{where}{name}", tuple(hints), name)
        if name in nested:
            values[name] = record_from(nested[name], value, f"{where}{name}.")
        else:
            is_tuple = isinstance(value, list) and typing.get_origin(hints[name]) is tuple
            values[name] = tuple(value) if is_tuple else value
    for each in dataclasses.fields(typing.cast(Any, kind)):
        has_default = each.default is not dataclasses.MISSING or each.default_factory is not dataclasses.MISSING
        require(has_default or each.name in values, f"{where}{each.name}", "a value", None, "Add the field.")
    try:
        return kind(**values)
    except ValueError as error:
        places = [(kind, where), *((hint, f"{where}{name}.") for name, hint in nested.items())]
        prefixes = {each.__name__: place for owner, place in places for each in owner.__mro__[:-1]}  # without object
        classes = rf"\b({'|'.join(prefixes)})\."
        raise ValueError(re.sub(classes, lambda found: prefixes[found[1]], str(error))) from error
