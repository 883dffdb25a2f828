r"""Finds what is no text in a sentence: variables of programs, tags and marks of Markdown.

    variables   %s %5d %.2f %1$s %@ %(name)s %{name} %name% ${x} #{x} {x} {0} {} {{ x }} {% if x %}
    tags        <b> </i> <br/> <a href="x"> <1> &nbsp; &#160;
    Markdown    * ** ~~ `code` [ ](address) ![

The patterns mean the same in Python (``re.ASCII``) and in RE2. Each takes linear time.
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


def differing(source: str, translation: str) -> list[str]:
    """Returns the variables, tags and marks of ``source`` that ``translation`` lacks or repeats.

    If only the order of the positional variables differs, returns these.
    """
    sides = [_MARKUP.findall(text) for text in (source, translation)]
    first, second = map(Counter, sides)
    ordered = [[mark for mark in side if _POSITIONAL.fullmatch(mark)] for side in sides]
    return [*((first - second) + (second - first)).elements()] or ordered[0] * (ordered[0] != ordered[1])
