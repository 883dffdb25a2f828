"""Splits text into sentences and joins them again without losing a visible character.

A sentence ends

- at a line break,
- after one or more of ``. ! ? …`` and the marks of other scripts, such as ``؟ ۔ । 。``, including closing quotation
  marks and brackets, if white space follows and then a letter, a digit or an opening mark (``¿ ¡ « " ' “ ‘ ( [ —``).
  The letter is upper-case, or of a script without case, such as Arabic or Hebrew, and
- after the Chinese and Japanese marks ``。！？`` without white space. A closing quotation mark after them does not end
  a sentence, because the sentence around a quotation goes on.

It does not end at the full stop of an initial ("J. R. R. Tolkien", "د. أحمد") or of an abbreviation in the list below.
Other abbreviations before a capital ("etc. Luego") end a sentence. The list has only abbreviations that rarely end a
sentence, because the model gets two sentences at once if an end is missed. The marks and the case of the letters tell
the scripts apart, so the language need not be known.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..lines import INVISIBLE

_WIDE = "。！？｡"
_MARKS = f".!?…؟۔।॥։።။{_WIDE}"
_CLOSING = "\"'»”’)\\]」』）】》"
# The lookbehinds let a match begin only at the start of a run of marks or spaces, so each run is scanned once.
_END_AND_GAP = re.compile(
    rf"(?<![{_MARKS}])(?P<end>[{_MARKS}]+)[{_CLOSING}“‘]*(?P<gap>\s+)"
    r"|(?<!\s)(?P<break>[^\S\n]*\n\s*)"
    rf"|(?<=[{_WIDE}])(?P<joint>(?=[^\s{_MARKS}{_CLOSING}]))"
)
_OPENING = "¿¡«\"'“„‘‚([—「『（【《"
_LAST_WORD = re.compile(r"""(?:[^\W\d_]|(?<=[א-ת])["״׳](?=[א-ת]))+\Z""")  # a Hebrew acronym is one word
# Spanish: titles, abbreviations before numbers, the first halves of EE. UU., FF. AA., RR. HH., SS. MM. Then English.
_ABBREVIATION = re.compile(
    r"sra?|sres|srta|dra?|d|dña|prof|uds?|gral|lic|ing|arq|fray|sto|sta"
    r"|págs?|núm|arts?|cap|vol|ed|figs?|tel|av|avda|ee|ff|rr|ss"
    r"|mrs?|ms|st|mt|gen|col|capt|lt|sgt|rev|hon|sen|rep|gov|pres|pp|vols",
    re.IGNORECASE,
)


class Piece(NamedTuple):
    """A sentence and the white space after it."""

    sentence: str
    """Sentence without surrounding white space. Empty only if a text begins with white space."""
    gap: str
    """Original white space. Empty at the end of the text, and where no white space separates the sentences."""


def split(text: str) -> list[Piece]:
    """Splits ``text`` into sentences. Sentences and gaps joined give ``text`` again, without ``INVISIBLE``."""
    text = re.sub(INVISIBLE, "", text)
    pieces = []
    start = 0
    for match in _END_AND_GAP.finditer(text):
        if not _is_boundary(text, match):
            continue
        assert match.lastgroup is not None
        gap = match.start(match.lastgroup)
        pieces.append(Piece(text[start:gap], text[gap : match.end()]))
        start = match.end()
    rest = text[start:]
    if rest:
        sentence = rest.rstrip()
        pieces.append(Piece(sentence, rest[len(sentence) :]))
    return [part for piece in pieces for part in _without_leading_space(piece)]


def beginning(text: str, max_bytes: int) -> str:
    """Cuts ``text`` to ``max_bytes`` of UTF-8 between words, or between characters of a single word."""
    encoded = text.encode()
    if len(encoded) <= max_bytes:
        return text
    words = encoded[:max_bytes].decode("utf-8", "ignore").rsplit(maxsplit=1)
    return words[0] if words else ""


def rejoin(pieces: Sequence[Piece], translations: Iterable[str]) -> str:
    """Joins ``pieces`` with ``translations`` in place of their non-empty sentences.

    A space separates two translations whose sentences no space separates, except after a mark such as ``。``.
    """
    remaining, joined = iter(translations), ""
    for number, piece in enumerate(pieces, start=1):
        joined += next(remaining) if piece.sentence else ""
        is_tight = number == len(pieces) or joined.endswith(tuple(_WIDE))
        joined += piece.gap or " " * (not is_tight)
    return joined


def _is_boundary(text: str, match: re.Match[str]) -> bool:
    if match["gap"] is None or "\n" in match["gap"]:
        return True
    following = text[match.end() : match.end() + 1]
    if not (_is_not_small(following) or following.isdigit() or (following and following in _OPENING)):
        return False
    if match["end"] != ".":
        return True
    before = unicodedata.normalize("NFC", text[max(0, match.start() - 20) : match.start()])
    last = _LAST_WORD.search("".join(letter for letter in before if unicodedata.category(letter)[0] != "M"))
    word = last[0] if last else ""
    is_initial = len(word) == 1 and _is_not_small(word)
    return not is_initial and _ABBREVIATION.fullmatch(word) is None


def _is_not_small(letter: str) -> bool:
    return letter.isalpha() and not letter.islower()


def _without_leading_space(piece: Piece) -> list[Piece]:
    sentence = piece.sentence.lstrip()
    if sentence == piece.sentence:
        return [piece]
    space = piece.sentence[: len(piece.sentence) - len(sentence)]
    return [Piece("", space), Piece(sentence, piece.gap)] if sentence else [Piece("", space + piece.gap)]
