"""Languages and scripts: which language a code means, and how its text is written.

A script that is written without spaces has no words to count, to score or to draw. The marks of a cased script are
accents, which people often omit. In all other scripts, marks are part of the word.
"""

import re
import unicodedata
from functools import cache
from itertools import pairwise
from typing import Literal

SPACELESS = {
    **dict.fromkeys(
        ("Hani", "Hans", "Hant"),
        ("CJK", "IDEOGRAPHIC NUMBER", "HANGZHOU", "VERTICAL IDEOGRAPHIC", "OLD CHINESE", "VIETNAMESE ALTERNATE"),
    ),
    **dict.fromkeys(
        ("Jpan", "Hrkt", "Hira", "Kana"),
        (
            *("CJK", "IDEOGRAPHIC ITERATION", "IDEOGRAPHIC CLOSING"),
            *("HIRAGANA", "HENTAIGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HALFWIDTH KATAKANA"),
        ),
    ),
    **{"Bopo": ("BOPOMOFO",), "Thai": ("THAI",), "Laoo": ("LAO",), "Khmr": ("KHMER",), "Mymr": ("MYANMAR",)},
    **{"Tibt": ("TIBETAN",), "Java": ("JAVANESE",), "Bali": ("BALINESE",), "Lana": ("TAI THAM",)},
    **{"Talu": ("NEW TAI LUE",), "Yiii": ("YI",), "Tang": ("TANGUT",)},
}
"""Scripts without spaces between words, each with the first words of the Unicode names of its letters."""

_ACCENTED = re.compile(
    "([^\\W\\d_])"
    "[\u0300-\u036f\u0483-\u0487\u1ab0-\u1abd\u1abf-\u1aff\u1dc0-\u1dff\u20d0-\u20dc\u20e1\u20e5-\u20f0\u2de0-\u2dff"
    "\ua66f\ua674-\ua67d\ufe20-\ufe2f]+"
)
"""A letter and the marks of category Mn that are accents if the letter is of a cased script."""

_PREFIXES = tuple({f"{prefix} " for prefixes in SPACELESS.values() for prefix in prefixes})
_BLEU_TOKENIZERS = {
    **dict.fromkeys(("Hani", "Hans", "Hant"), "zh"),
    **dict.fromkeys(("Jpan", "Hrkt", "Hira", "Kana"), "ja-mecab"),
    **dict.fromkeys(("Kore", "Hang"), "ko-mecab"),
}


def is_language(tag: str) -> bool:
    """Returns ``True`` for the BCP 47 tag or ISO 639 code of a language."""
    from langcodes import Language, tag_is_valid

    return tag_is_valid(tag) and Language.get(tag).language is not None


def standard_tag(language: str, where: str = "language") -> str:
    """Returns the BCP 47 tag of a language, such as ``es`` for spa.

    Args:
        language: A BCP 47 tag, such as zh-Hant, or an ISO 639 code of two or three letters, such as zho.
        where: Name of the argument or option in an error.

    Raises:
        ValueError: there is no such language. The message suggests a similar code.
    """
    from langcodes import Language  # imported here so that `nmt --help` is fast
    from langcodes.data_dicts import LANGUAGE_ALPHA3, LANGUAGE_ALPHA3_BIBLIOGRAPHIC

    if is_language(language):
        return Language.get(language).to_tag()
    typed = language.lower().partition("-")[0][:3]
    codes = {*LANGUAGE_ALPHA3, *LANGUAGE_ALPHA3.values(), *LANGUAGE_ALPHA3_BIBLIOGRAPHIC.values()}
    related = {code for code in codes if typed.startswith(code) or (typed and code.startswith(typed))}
    nearest = sorted({typed} & codes or related)[:3]
    hint = f" Did you mean {' or '.join(nearest)}?" if nearest else ""
    raise ValueError(
        f"{where}: expected a language code (BCP 47 or ISO 639) such as es or zh-Hant, received {language!r}.{hint}"
    )


def script(language: str | None) -> str | None:
    """Returns the ISO 15924 code of the script that a language is usually written in, such as ``Hant``.

    Args:
        language: As in ``standard_tag``; or ``None``, which has no script.

    Raises:
        ValueError: there is no such language.
    """
    if language is None:
        return None
    from langcodes import Language

    return Language.get(standard_tag(language)).maximize().script


def has_spaces(language: str | None) -> bool:
    """Returns ``True`` if spaces separate the words of a language, and for ``None``. For errors, see ``script``."""
    return script(language) not in SPACELESS


def bleu_tokenizer(language: str | None) -> str:
    """Returns the name of sacreBLEU's tokenizer for a language. For errors, see ``script``.

    Returns:
        The tokenizer of Chinese, Japanese or Korean; "char" for other languages without spaces; else the default, 13a.
    """
    written = script(language)
    return _BLEU_TOKENIZERS.get(written or "", "char" if written in SPACELESS else "13a")


@cache
def is_spaceless(character: str) -> bool:
    """Returns ``True`` for a letter, digit or mark of a script without spaces between words."""
    return unicodedata.category(character)[0] in "LMN" and unicodedata.name(character, "").startswith(_PREFIXES)


def is_apart(before: str, character: str) -> bool:
    """Returns ``True`` if ``character`` begins a word after the character ``before`` without a space between them."""
    return (is_spaceless(before) or is_spaceless(character)) and unicodedata.category(character)[0] != "M"


def spaced(text: str) -> str:
    """Returns ``text`` with spaces around each letter of a script without spaces, so that it counts as a word."""
    if not any(map(is_spaceless, {*text})):
        return text
    return text[:1] + "".join(" " * is_apart(*pair) + pair[1] for pair in pairwise(text))


def split_words(text: str) -> list[str]:
    """Returns the lower-cased words and signs of a text. In scripts without spaces, each letter is a word."""
    return _words().findall(spaced(text.lower()))


@cache
def _words() -> re.Pattern[str]:
    """Returns the pattern of a word or a sign. Python's ``\\w`` lacks marks, such as the vowel signs of Hindi."""
    marks = "".join(sign for sign in map(chr, range(0x300, 0x1F000)) if unicodedata.category(sign)[0] == "M")
    return re.compile(rf"(?:\w[{marks}]*)+|[^\w\s]")


def without_accents(text: str, form: Literal["NFC", "NFKD"] = "NFC") -> str:
    """Returns ``text`` in a Unicode normalisation form, without the accents of Latin, Greek and Cyrillic letters."""
    decomposed = unicodedata.normalize("NFKD" if form == "NFKD" else "NFD", text)
    plain = _ACCENTED.sub(lambda found: found[1] if _is_cased(found[1]) else found[0], decomposed)
    return unicodedata.normalize(form, plain)


@cache
def _is_cased(character: str) -> bool:
    return unicodedata.name(character, "").startswith(("LATIN", "GREEK", "CYRILLIC"))
