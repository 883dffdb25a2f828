"""Forms of text that a line shows: damaged encoding, tokenisation, case. Each is a test of one line, and its repair."""

import html
import re
import unicodedata
from collections.abc import Callable
from typing import NamedTuple

from nmt_keras.io.sentences import MARKS
from nmt_keras.languages import is_spaceless

_NON_ASCII = re.compile(r"[^\x00-\x7f]+")
_SENTENCE_END = re.compile(rf"[{MARKS}]['\"”’»)」』]*\s*$")
_ENTITY = re.compile(r"&(?:#\d{1,6}|#x[\da-fA-F]{1,5}|[a-zA-Z]{2,8});")
_ESCAPE = re.compile(r"\\u[\da-fA-F]{4}|\\x[\da-fA-F]{2}|(?:=[\dA-F]{2}){2}|(?:%[\dA-F]{2}){2}")
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
_PIECE = re.compile(r"@@ |@@$|▁|(?:^| )##\w")
_LOST = re.compile(r"\ufffd|ï¿½|[^\W\d_]\?[^\W\d_]")
_APART, _ATTACHED = re.compile(r"\w [.,](?:\s|$)"), re.compile(r"\w[.,](?:\s|$)")
_LONG = re.compile(r"[^\W\d_]{30}")


class Form(NamedTuple):
    """A form of text."""

    name: str  # in ``findings.LIMITS``
    what: str
    test: Callable[[str], bool]
    among: Callable[[str], bool] = bool  # the lines that could have the form
    repair: Callable[[str], str] = str  # "" drops the pair; white space in the result becomes single spaces


def unscrambled(line: str) -> str:
    """Returns a line in which UTF-8 that was read in another encoding (mojibake) is read again."""
    return _NON_ASCII.sub(_read_again, line)


def _read_again(run: re.Match[str]) -> str:
    for encoding in ("cp1252", "latin-1", "cp1251"):
        try:
            return run[0].encode(encoding).decode("utf-8")
        except UnicodeError:
            continue
    return run[0]


def is_sentence(line: str) -> bool:
    """Returns ``True`` for a line that ends in the punctuation of a sentence."""
    return _SENTENCE_END.search(line) is not None


def _may_have_capitals(line: str) -> bool:
    """Returns ``True`` for a sentence that begins with a letter of a cased script."""
    first = line.lstrip("¿¡\"'“„«»- ")[:1]
    return first.lower() != first.upper() and is_sentence(line)


def _is_spaceless(line: str) -> bool:
    return not line.isascii() and 2 * sum(map(is_spaceless, line)) > len(line) - line.count(" ")


def _is_split(line: str) -> bool:
    return 4 * line.count(" ") > len(line) if _is_spaceless(line) else _ATTACHED.search(line) is None


def joined(line: str) -> str:
    """Returns a line with its subword pieces joined: marks of SentencePiece, subword-nmt or WordPiece."""
    if "▁" in line:
        line = line.replace(" ", "").replace("▁", " ")
    return re.sub(r"@@(?: |$)| ##(?=\w)", "", line).strip()


def detokenised(line: str) -> str:
    """Returns a line without the traces of tokenizers, to compare texts: pieces joined, no spaces around signs."""
    line = html.unescape(joined(line)).replace("@-@", "-")
    return re.sub(r"\s*([^\w\s])\s*", r"\1", line)


FORMS = (
    Form(
        "lost-letters",
        "lost letters (U+FFFD, or ? inside words)",
        lambda x: _LOST.search(x) is not None,
        repair=lambda _: "",
    ),
    Form("mojibake", "UTF-8 that was read in another encoding", lambda x: unscrambled(x) != x, repair=unscrambled),
    Form(
        "entities",
        "HTML entities",
        lambda x: "&" in x and _ENTITY.search(x) is not None and html.unescape(x) != x,
        repair=lambda x: html.unescape(html.unescape(x)),
    ),
    Form("escapes", "escaped characters", lambda x: _ESCAPE.search(x) is not None, repair=lambda _: ""),
    Form("tags", "tags", lambda x: _TAG.search(x) is not None, repair=lambda x: _TAG.sub(" ", x)),
    Form("subword-marks", "subword marks (@@, ▁ or ##)", lambda x: _PIECE.search(x) is not None, repair=joined),
    Form(
        "tokenised",
        "tokenised text (spaces before punctuation, or between letters)",
        _is_split,
        lambda x: _APART.search(x) is not None or _ATTACHED.search(x) is not None or _is_spaceless(x),
    ),
    Form(
        "joined-words",
        "words without spaces",
        lambda x: _LONG.search(x) is not None,
        lambda x: len(x) >= 30 and not _is_spaceless(x),
        repair=lambda _: "",
    ),
    Form(
        "decomposed",
        "letters that are not in Unicode's form NFC",
        lambda x: not unicodedata.is_normalized("NFC", x),
        repair=lambda x: unicodedata.normalize("NFC", x),
    ),
    Form("lower-case", "sentences without capitals", lambda x: x == x.lower(), _may_have_capitals),
    Form(
        "upper-case",
        "sentences in capitals",
        lambda x: x == x.upper(),
        lambda x: len(x) >= 15 and _may_have_capitals(x),
    ),
)
"""All forms, the most specific first. Lines that have been repaired are not tested for the later forms."""
