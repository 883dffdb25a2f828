"""Varies sentence pairs: sentences as people type them, and names that the corpus does not contain."""

import re
import unicodedata
from collections.abc import Sequence

import numpy as np

from nmt_keras.corpus.reading import Pair
from nmt_keras.languages import without_accents

_WORD = re.compile(r"\w+")
_MARK = ".!?…。！？।؟"
_END = re.compile(rf'(?<![{_MARK}])[{_MARK}]++(?=["”»)]*+\s*+$)')
_INVERTED = re.compile("[¿¡]")
_QUOTED = re.compile('"([^"]*)"')
_CLOSING = '.,;:!?…"”»)。，、！？।؟،'
# the group is marks inside words and numbers, which stay
_OUTER_MARKS = re.compile(rf'(?:(?<=\s)|^)[¿¡"“«(]++|[{_CLOSING}]++(?=\s|$)|([{_CLOSING}]++)')


class Augmentation:
    """Draws variations of sentence pairs.

    The changes are drawn independently, each with probability 1/2:

        lower case                 source only. Without it, names that are the same on both sides become other names
        no accents                 source only; in Latin, Greek and Cyrillic script
        no inverted marks          source only
        typographic quotes         source only; “a” instead of "a", and ’ instead of '
        no punctuation at the end  both sides. In half of these pairs, the source loses its other punctuation too

    Args:
        share: Share of the pairs to vary, 0 to 1.
        pairs: The training set. Other names are composed of its names.
    """

    def __init__(self, share: float, pairs: Sequence[Pair]):
        self.share = share
        found = (word for pair in (pairs if share else ()) for word in _common_words(_composed(pair), first=1))
        self._known_names = {
            word for word in found if len(word) > 2 and word.isalpha() and word[0].isupper() and word[1:].islower()
        }
        self.names = sorted(self._known_names)

    def draw(self, pair: Pair, random: np.random.Generator) -> Pair | None:
        """Returns a variation of ``pair``, or ``None`` if the pair is kept as it is."""
        if random.random() >= self.share:
            return None
        lower, plain, upright, typographic, open_end, bare = random.random(6) < 0.5
        source, target = pair = _composed(pair)
        if open_end:
            source, target = map(_without_end, pair)
            source = _OUTER_MARKS.sub(r"\1", source) if bare else source
        source = _INVERTED.sub("", source) if upright else source
        source = without_accents(source) if plain else source
        source = _QUOTED.sub(r"“\1”", source).replace("'", "’") if typographic else source
        if lower:
            source = source.lower().replace("i\u0307", "i")  # of İ
        else:
            common = sorted(_common_words(Pair(source, target)) & self._known_names)
            names = {name: self._varied_name(name, random) for name in common}
            source, target = (_WORD.sub(lambda word: names.get(word[0], word[0]), side) for side in (source, target))
        varied = Pair(source.strip(), target.strip())
        return varied if varied != pair and all(map(_WORD.search, varied)) else None

    def _varied_name(self, name: str, random: np.random.Generator) -> str:
        """Returns an invented name or, three times as often, a full name that begins with ``name`` or an invented name.

        An invented name is the first half of a name and the second half of another one.
        """
        drawn = [self.names[i] for i in random.integers(len(self.names), size=5)]
        known = drawn.pop()
        halves = zip(drawn[::2], drawn[1::2], strict=True)
        first, last = (one[: (len(one) + 1) // 2] + other[len(other) // 2 :] for one, other in halves)
        return (first, f"{first} {last}", f"{name} {last}", f"{name} {known}")[random.integers(4)]


def _composed(pair: Pair) -> Pair:
    """Returns a pair in NFC, in which no mark divides a word."""
    return Pair(*(unicodedata.normalize("NFC", side) for side in pair))


def _without_end(sentence: str) -> str:
    """Returns a sentence without its last marks, and without the inverted mark that belongs to them."""
    if not (end := _END.search(sentence)):
        return sentence
    for closing, opening in ("?¿", "!¡"):
        if closing in end[0]:
            before, _, after = sentence.rpartition(opening)
            sentence = before + after
    return _END.sub("", sentence)


def _common_words(pair: Pair, first: int = 0) -> set[str]:
    """Returns the words of the source, from number ``first``, that the target contains."""
    return set(_WORD.findall(pair.source)[first:]) & set(_WORD.findall(pair.target))
