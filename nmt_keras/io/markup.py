r"""Finds what is no text in a sentence: variables of programs, tags and marks of Markdown.

    variables   %s %5d %.2f %1$s %@ %(name)s %{name} %name% ${x} #{x} {x} {0} {} {{ x }} {% if x %}
    tags        <b> </i> <br/> <a href="x"> <1> &nbsp; &#160;
    Markdown    * ** ~~ `code` [ ](address) ![

The patterns of markup mean the same in Python (``re.ASCII``) and in RE2. Each takes linear time.
"""

import re
from collections import Counter

_FORMAT = r"[+\-0#]{0,4}\d{0,4}(?:\.\d{0,4})?(?:hh|ll|[hlLqjzt])?[EFGXcdefgiosux]\b"
POSITIONAL = rf"%(?:{_FORMAT}|@)|\{{\}}"
"""Variables that programs fill in their order."""

MARKUP = (
    rf"%(?:\d{{1,2}}\$)?(?:{_FORMAT}|@)|%(?:\([\w.\- ]+\)|\{{[\w.\- ]+\}}|<[\w.\- ]+>)(?:{_FORMAT})?|%[A-Za-z_]\w*%"
    r"|\{%[^{}]*%\}|\{\{[^{}]*\}\}|[$#]?\{{1,3}[^\s{}]*\}{1,3}"
    r"|</?[A-Za-z0-9][\w:.\-]*(?:\s+[\w:@.\-]+(?:=(?:\"[^\"<>]*\"|'[^'<>]*'|[^\s\"'<>]+))?)*\s*/?>"
    r"|&(?:[A-Za-z]\w{1,31}|#\w{2,8});"
    r"|`[^`]+`|\*{1,3}|~~|!?\[|\](?:\([^\s()]*\))?"
)
_MARKUP, _POSITIONAL = (re.compile(pattern, re.ASCII) for pattern in (MARKUP, POSITIONAL))
_COPIED = re.compile(
    r"(?:https?://|www\.)[!-~]{0,2000}[A-Za-z0-9/]|[\w.+\-]{1,64}@[\w.\-]{1,255}\w|\d{1,300}(?:[.,]\d{1,300}){0,9}",
    re.ASCII,
)


def differing(source: str, translation: str) -> list[str]:
    """Returns what ``source`` has and ``translation`` should have, too, but lacks or repeats.

    These are variables, tags and marks, as often as in the source, and numbers and addresses, at least once. 1.500 and
    1,500 are equal. If only the order of the positional variables differs, returns these.
    """
    sides = [_MARKUP.findall(text) for text in (source, translation)]
    first, second = map(Counter, sides)
    ordered = [[mark for mark in side if _POSITIONAL.fullmatch(mark)] for side in sides]
    copied, kept = (_COPIED.findall(_MARKUP.sub(" ", text)) for text in (source, translation))
    written = {each.replace(",", ".") for each in kept}
    missing = [each for each in dict.fromkeys(copied) if each.replace(",", ".") not in written]
    return [*((first - second) + (second - first)).elements(), *missing] or ordered[0] * (ordered[0] != ordered[1])
