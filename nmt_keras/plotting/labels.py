"""Text in figures: one-line labels, and installed fonts that contain their characters."""

import unicodedata
import warnings

import matplotlib
from matplotlib.font_manager import FontProperties, findfont, fontManager, get_font

END_LABEL = "</s>"
LONGEST_LABEL = 32  # characters
SHAPES_TEXT = (3, 11)  # first version of matplotlib with right-to-left order and joined letters
UNDRAWABLE = "\N{REPLACEMENT CHARACTER}"
DIRECTIONS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Invisible characters that control the direction of text."""


def token_label(token: str) -> str:
    """Returns the label of a token.

    An empty token becomes ``</s>``. In a token of spaces only, each space becomes ``␣``. Long labels end in ``…``.
    """
    if token == "":
        return END_LABEL
    if token.strip(" ") == "":
        token = token.replace(" ", "␣")
    label = one_line(unicodedata.normalize("NFC", token))
    return label if len(label) <= LONGEST_LABEL else label[: LONGEST_LABEL - 1] + "…"


def one_line(text: str) -> str:
    """Returns ``text`` on one line. Escapes control characters, line separators and lone surrogates as in Python."""
    unprintable = {"Cc", "Cs", "Zl", "Zp"}
    return "".join(ascii(c)[1:-1] if unicodedata.category(c) in unprintable else c for c in text)


def fonts_for(text: str) -> tuple[list[str], dict[int, str]]:
    """Returns font families that together cover ``text``, and replacements for characters that no font has.

    Missing characters that control the direction of text are removed.

    Warns:
        UserWarning: no installed font contains some characters. They are listed, and drawn as ``�``.
        UserWarning: ``text`` contains right-to-left letters, which matplotlib before 3.11 draws in the wrong order.
    """
    families = [*matplotlib.rcParams["font.family"], "DejaVu Sans"]  # matplotlib's own font comes last
    missing = set(text).difference("\n", *map(_characters, families))
    font = FontProperties(family=families).get_name()

    # Families without a regular face make findfont log a message. Fonts of last resort draw only boxes.
    installed = {f.name for f in fontManager.ttflist if f.style == "normal" and f.weight in (400, "normal", "regular")}
    for family in sorted(name for name in installed if not name.lstrip(".").startswith(("LastResort", "Last Resort"))):
        if missing and (found := missing & _characters(family)):
            families.append(family)
            missing -= found

    invisible = missing & DIRECTIONS
    missing -= invisible
    if missing:
        named = ", ".join(f"{character} (U+{ord(character):04X})" for character in sorted(missing))
        warnings.warn(
            f"Neither {font} nor any other installed font has {named}. They are drawn as {UNDRAWABLE}. Install a font "
            "such as Noto Sans CJK or Noto Emoji, and call matplotlib.font_manager.fontManager.addfont(its file).",
            stacklevel=2,
        )
    if matplotlib.__version_info__ < SHAPES_TEXT and any(unicodedata.bidirectional(c) in ("R", "AL") for c in text):
        warnings.warn(
            f"matplotlib {matplotlib.__version__} does not support text from right to left, such as Arabic and "
            'Hebrew: letters are mirrored and not joined. Upgrade it: pip install "matplotlib>=3.11".',
            stacklevel=2,
        )
    return families, {**{ord(c): UNDRAWABLE for c in missing}, **{ord(c): "" for c in invisible}}


def _characters(family: str) -> set[str]:
    return set(map(chr, get_font(findfont(FontProperties(family=[family]))).get_charmap()))
