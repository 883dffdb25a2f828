"""Splits text into sentences and joins them again without losing a visible character.

The client, the command line, the graph of an export and the translator in an HTML file apply the same ``RULES``, so
they split alike. The served page has no rules of its own, because it asks the graph. A sentence ends

- at a line break, or at a picture (an emoji, a bullet, an arrow) at the beginning or end of a line,
- after a mark such as ``. ! ? … ؟ ۔ । 。`` and closing quotation marks or brackets, if white space or a picture
  follows, and then anything but a lower-case letter, a closing mark, a dash or a sign such as ``, : %``, and
- after the Chinese and Japanese marks ``。！？`` without white space. A closing quotation mark after them does not end
  a sentence, because the sentence around a quotation goes on.

Marks before a line are not part of its sentence: ``#`` of a heading, ``-``, ``*``, ``1.`` of a list, ``>`` of a quoted
mail, and the dash of a dialogue.

It does not end at the full stop of an initial ("J. R. R. Tolkien", "د. أحمد"), or of an abbreviation or an ordinal
("3. Mai") in the table ``sentences.toml``. Other abbreviations before a capital ("etc. Luego") end a sentence. The
table has only entries that rarely end a sentence, because the model gets two sentences at once if an end is missed. The
marks and the case of the letters tell the scripts apart, so the language need not be known.
"""

import re
import tomllib
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from nmt_keras.io.lines import INVISIBLE

Answer = TypeVar("Answer")

WIDE = "。！？｡"
"""Marks after which no space separates sentences."""

MAX_SENTENCES = 32
"""Maximum number of sentences that the signature ``text`` of an export translates in a string."""

BORDER = "\x03"
"""Separates sentences and gaps after all ``RULES``."""

MARKS = f".!?…؟۔।॥։።။។{WIDE}"
"""Marks that end sentences."""
_CLOSING = "\"'»”’“‘)\\]」』）】》"
_OPENING = "¿¡«“„‘‚(\\[—「『（【《"
_SPACE = "\t\n\v\f\r \x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_PICTURES = "•‣⁃\u2190-\u21ff\u2300-\u23ff\u25a0-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff"  # emoji, bullets, arrows
_CASED = chain(range(0x600), range(0x1D00, 0x2000), range(0x2C00, 0x2D00), range(0xA640, 0xA800))
_SMALL = "".join(filter(str.islower, map(chr, _CASED)))
_NOT_SMALL = "".join(letter for letter in map(chr, range(0x3000)) if letter.isalpha() and letter not in _SMALL)
_CANNOT_BEGIN = f"{_SMALL}{_SPACE}{MARKS}»”’)\\]」』）】》%&*+,\\-/:;<=>\\\\^_`{{|}}~‐-–\x01-\x04"
_BEFORE = f"(^|[{_SPACE}{_OPENING}\\-/]|(?:^|[^א-ת])[\"'])"  # a quotation mark inside a Hebrew word marks an acronym
_TABLE = tomllib.loads(Path(__file__).with_name("sentences.toml").read_text(encoding="utf-8"))


def _any_of(*rows: str, parts: slice = slice(None)) -> str:
    """Returns the pattern of the entries of rows in all languages, in both normal forms.

    Args:
        rows: Names of rows.
        parts: The parts of an entry between spaces. Entries without such parts are left out.
    """
    written = {entry for language in _TABLE.values() for row in rows for entry in language.get(row, "").split()}
    chosen = {"._".join(entry.split("._")[parts]) for entry in written} - {""}
    chosen |= {unicodedata.normalize("NFD", entry) for entry in chosen}
    patterns = (
        re.escape(entry).replace(r"\._", f"\\.[{_SPACE}]*").replace("_", f"[{_SPACE}]+")
        for entry in sorted(chosen, reverse=True)  # long entries before their beginnings
    )
    return f"(?:{'|'.join(each if each[0].isupper() else f'(?i:{each})' for each in patterns)})"


_BLANK = "\x01[^\n\r\x02]*\x02"
_MARK = f"(?:(?:#{{1,6}}|[*+·-]|>{{1,9}}|\\[(?:\x01 \x02|[xX])\\]){_BLANK}|[—–―](?:{_BLANK})?)"
_NUMBER = f"[0-9]{{1,3}}[.)]{_BLANK}"
_LINE_MARKS = f"(?:{_MARK}+(?:{_NUMBER})?|{_NUMBER})"

RULES: Sequence[tuple[str, str]] = (
    (INVISIBLE, ""),
    (f"{_BEFORE}((?:(?:{_any_of('cldr', 'more')}|[{_NOT_SMALL}][\u0300-\u036f]*)\\.)+)", "\\1\\2\x04"),
    (
        f"{_BEFORE}({_any_of('cldr', 'more', 'inner', parts=slice(-1))}\\.)"
        f"([{_SPACE}]*{_any_of('cldr', 'more', 'inner', parts=slice(-1, None))}\\.)",
        "\\1\\2\x04\\3",
    ),
    (f"(^|[{_OPENING}]|[^0-9.\x04{_SPACE}][{_SPACE}])({_any_of('names')}\\.)", "\\1\\2\x04"),
    (f"{_BEFORE}({_any_of('numbers')}\\.)([{_SPACE}]*[0-9])", "\\1\\2\x04\\3"),
    (f"(^|[^0-9.,])([0-9]{{1,2}}\\.)([{_SPACE}]+{_any_of('ordinals')})", "\\1\\2\x04\\3"),
    (f"((?:[{_SPACE}]|[{_PICTURES}][{_PICTURES}\u200d\ufe0f\U000e0020-\U000e007f]*)+)", "\x01\\1\x02"),
    ("\x01([^\n\r\x02]*[\n\r][^\x02]*)\x02", f"{BORDER}\\1{BORDER}"),
    (f'(^|{BORDER})-([¿¡«“"{_NOT_SMALL}])', "\\1-\x01\x02\\2"),
    (f"{BORDER}({_LINE_MARKS})([^\x01-\x04])", f"\\1{BORDER}\\2"),
    (f"^((?:\x01[^\x02]*\x02)?{_LINE_MARKS})([^\x01-\x04])", f"{BORDER}\\1{BORDER}\\2"),
    (
        f"([{MARKS}][{_CLOSING}]*)\x01([^\x02]*)\x02([^{_CANNOT_BEGIN}])",
        f"\\1{BORDER}\\2{BORDER}\\3",
    ),
    (f"([{WIDE}])([^{_SPACE}{MARKS}{_CLOSING}\x01-\x04])", f"\\1{BORDER}{BORDER}\\2"),
    ("^\x01([^\x02]*)\x02", f"{BORDER}\\1{BORDER}"),
    ("\x01([^\x02]*)\x02$", f"{BORDER}\\1{BORDER}"),
    ("[\x01\x02\x04]", ""),
)
"""Replacements, in this order, which divide a text at each ``BORDER`` into a sentence, a gap, a sentence, and so on.

The patterns mean the same in Python and in RE2, which cannot look ahead or behind. U+0004 follows a full stop that ends
no sentence. U+0001 and U+0002 enclose white space and pictures, so that each run of them is read once. The first rule
drops these characters, and ``BORDER``, from the text.
"""


class Piece(NamedTuple):
    """A sentence and the white space and pictures, such as emoji, after it."""

    sentence: str
    """Sentence without surrounding white space. Empty only if a text begins with white space, a picture or marks."""
    gap: str
    """Original white space, pictures and marks before the next line. Empty where nothing separates the sentences, and
    at the end of most texts."""


class TranslatedText(NamedTuple, Generic[Answer]):
    """The translation of a text of any number of sentences."""

    text: str
    """Translations of the sentences, with the white space of the source between them."""
    sentences: list[tuple[str, Answer]]
    """Source sentences with their translations."""

    @property
    def truncated(self) -> bool:
        """``True`` if a sentence was truncated."""
        answers: list[Any] = [answer for _, answer in self.sentences]
        return any(answer.truncated for answer in answers)


def split(text: str) -> list[Piece]:
    """Splits ``text`` into sentences. Sentences and gaps joined give ``text`` again, without ``INVISIBLE``."""
    for pattern, replacement in RULES:
        text = re.sub(pattern, replacement, text)
    parts = [*text.split(BORDER), ""]
    return [Piece(*pair) for pair in zip(parts[::2], parts[1::2], strict=True) if any(pair)]


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
        translation = next(remaining) if piece.sentence else ""
        is_tight = number == len(pieces) or translation.endswith(tuple(WIDE))
        joined += translation + (piece.gap or " " * (not is_tight))
    return joined


def translate_texts(
    texts: Iterable[str], translate: Callable[[list[str]], Sequence[Answer]], written: Callable[[Answer], str]
) -> list[TranslatedText[Answer]]:
    """Splits texts, translates all their sentences together, and joins the translations of each text.

    Args:
        texts: Texts of any length.
        translate: Returns an answer for each sentence.
        written: Returns the translation in an answer.
    """
    split_texts = [split(text) for text in texts]
    answers = iter(translate([piece.sentence for pieces in split_texts for piece in pieces if piece.sentence]))
    found = []
    for pieces in split_texts:
        answered = [(piece.sentence, next(answers)) for piece in pieces if piece.sentence]
        found.append(TranslatedText(rejoin(pieces, [written(answer) for _, answer in answered]), answered))
    return found
