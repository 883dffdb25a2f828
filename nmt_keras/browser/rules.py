"""Text rules of the graph for JavaScript: the same patterns, in the syntax of another engine.

The graph's patterns are those of RE2. ``javascript`` rewrites them for the flag ``u``, which means the same: sets of
ASCII characters, scripts, code points, and letters of any case.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import groupby
from typing import Any

import tensorflow as tf

from nmt_keras.io.markup import MARKUP, POSITIONAL
from nmt_keras.io.sentences import MAX_SENTENCES, RULES, WIDE
from nmt_keras.manifest import BEAM_SIZE
from nmt_keras.text import placeholders
from nmt_keras.text.capitals import CAPITALS, to_lower, to_upper
from nmt_keras.text.normalisation import BYTES_PER_TOKEN, STEPS
from nmt_keras.translation.records import MAX_BYTES

_ATOM = r"\\x\{[0-9A-Fa-f]+\}|\\x[0-9A-Fa-f]{2}|\\[pP]\{\w+\}|\\.|."
_ITEM = re.compile(f"({_ATOM})(?:-({_ATOM}))?", re.DOTALL)
_TOKEN = re.compile(rf"\[\^?(?:\\.|[^\\\]])+\]|\(\?\w*:?|\{{\d+(?:,\d*)?\}}|{_ATOM}", re.DOTALL)
_SCRIPT = re.compile(r"(?<=[pP])\{(?![CLMNPSZ][a-z]?\})(\w+)\}")
_UNKNOWN = "pattern: expected a construct that is known to mean the same in JavaScript, received {}."
_BLANK = "\\t\\n\\f\\r "
_CONTROLS = {"\\t": "\t", "\\n": "\n", "\\v": "\v", "\\f": "\f", "\\r": "\r"}
_OPERATORS = {**{sign: sign for sign in ("|", "*", "+", "?", "^", "$", ")", "\\b")}, ".": "[^\\n]"}


def text_rules(known: placeholders.KnownWords | None) -> dict[str, Any]:
    """Returns the rules as JSON: ``steps`` (replacements), ``forms`` (patterns of whole texts) and ``limits``.

    Args:
        known: Known words of the source, or ``None`` if the vocabularies have no placeholders.
    """
    foreign = placeholders.foreign_letters(known) if known else ""
    steps = {
        "normalised": STEPS,
        "divided": placeholders.DIVISION,
        "shape": placeholders.SHAPE,
        "joined": [(placeholders.APART, "")],
        "sentences": RULES,
    }
    forms = {
        "capitals": CAPITALS,
        "markup": MARKUP,
        "positional": POSITIONAL,
        "form": placeholders.FORM,
        "name": placeholders.CAPITALISED,
        "inside": placeholders.INSIDE,
        "letters": placeholders.has_letters(foreign),
    }
    if foreign:
        forms["foreign"] = placeholders.foreign_word(foreign)
    return {
        "steps": {
            name: [[javascript(pattern), _replacement(new)] for pattern, new in pairs] for name, pairs in steps.items()
        },
        "forms": {name: f"^(?:{javascript(pattern)})$" for name, pattern in forms.items()},
        "limits": {
            "bytes": MAX_BYTES,
            "sentences": MAX_SENTENCES,
            "bytesPerToken": BYTES_PER_TOKEN,
            "copiedBytes": placeholders.MAX_COPIED_BYTES,
            "beamSize": BEAM_SIZE,
        },
        "caseless": _caseless(),
        "signs": placeholders.SIGNS,
        "separator": placeholders.SEPARATOR,
        "sides": [placeholders.LEFT, placeholders.RIGHT],
        "wide": WIDE,
    }


def _caseless() -> str:
    """Returns the letters that have a case in RE2, but whose case the graph does not change."""
    letters = tf.constant([chr(point) for point in range(0x20000) if not 0xD800 <= point < 0xE000])
    is_kept = tf.equal(to_lower(letters), letters) & tf.equal(to_upper(letters), letters)
    is_cased = tf.strings.regex_full_match(letters, r"[\p{Lu}\p{Lt}\p{Ll}]")
    return str(tf.strings.reduce_join(letters[is_kept & is_cased]).numpy().decode())


def javascript(pattern: str) -> str:
    """Returns a pattern of RE2 for JavaScript's flag ``u``.

    Raises:
        ValueError: the pattern has a construct that no rule has used yet.
    """
    written, caseless = [], [False]  # for each open group
    for token in _TOKEN.findall(pattern):
        if token.startswith("(?") and token not in ("(?:", "(?i:"):
            raise ValueError(_UNKNOWN.format(token))
        if token[0] == "[" and len(token) > 1:
            negated = token[1] == "^"
            written.append(f"[{'^' * negated}{_items(token[1 + negated : -1], caseless[-1])}]")
        elif token[0] == "(":
            caseless.append(caseless[-1] or token == "(?i:")
            written.append(token.replace("i", ""))
        elif token in _OPERATORS or re.fullmatch(r"\{\d.*\}", token):
            written.append(_OPERATORS.get(token, token))
            if token == ")":
                caseless.pop()
        else:
            items = _items(token, caseless[-1])
            written.append(items if len(items) == 1 else f"[{items}]")
    return "".join(written)


def _items(text: str, caseless: bool) -> str:
    """Returns the inside of a class in JavaScript, with neighbouring characters as ranges."""
    sets, points = [], set[int]()
    for first, last in _ITEM.findall(text):
        if re.fullmatch(r"\\([pP]\{\w+\}|[sdw])", first) and not last:
            sets.append(_BLANK if first == "\\s" else _SCRIPT.sub(r"{Script=\1}", first))
        else:
            points.update(range(_code_point(first), _code_point(last or first) + 1))
    if caseless:
        points = {variant for point in points for variant in _cases().get(_folded(chr(point)), [point])}
    return "".join(sets) + "".join(_ranges(sorted(points)))


def _code_point(item: str) -> int:
    """Returns the code point of a character of a pattern."""
    if item in _CONTROLS or len(item) == 1:
        return ord(_CONTROLS.get(item, item))
    if item.startswith("\\x"):
        return int(item[2:].strip("{}"), 16)
    if item[0] != "\\" or item[1].isalnum():
        raise ValueError(_UNKNOWN.format(item))
    return ord(item[1])


def _ranges(points: Sequence[int]) -> Iterator[str]:
    for _, group in groupby(enumerate(points), lambda pair: pair[1] - pair[0]):
        run = [point for _, point in group]
        yield _written(run[0]) + ("-" * (len(run) > 2) + _written(run[-1])) * (len(run) > 1)


def _written(point: int) -> str:
    sign = chr(point)
    return sign if sign.isprintable() and sign not in r"\^$.*+?()[]{}|/-" else f"\\u{{{point:x}}}"


@cache
def _cases() -> dict[str, list[int]]:
    """Returns the characters that are equal without case, by their folded form."""
    found = defaultdict(list)
    for point in range(0x20000):
        found[_folded(chr(point))].append(point)
    return found


def _folded(letter: str) -> str:
    """Returns the simple case folding of a letter."""
    return next((form for form in (letter.casefold(), letter.lower()) if len(form) == 1), letter)


def _replacement(text: str) -> str:
    r"""Returns the replacement of ``String.replace``: ``$&`` for ``\0``, and ``$01`` for ``\1``."""
    return re.sub(r"\\(\d)", r"$0\1", text.replace("$", "$$")).replace("$00", "$&")
