"""Splits a corpus into training, validation and test set, so that no source or target sentence occurs in two sets.

A random split leaks, because an English sentence of the Spanish-English corpus has up to 24 Spanish translations. Here,
pairs that share a sentence form a group, and a hash of the group's name selects the set. The split has no seed and does
not depend on the order of the pairs. If pairs are added to the corpus, a sentence stays in its set unless the name of
its group changes.

1. ``sentence_key`` normalises a sentence: no invisible characters, no case, NFKD, no accents, and a space in place of
   each run of characters that are neither letters, digits nor marks of letters.
2. Two pairs are linked if their sources or their targets have the same key. The groups are the connected components.
3. A group's name is the smallest key of its ``key_side``, by code point. The first 8 hex digits of the name's sha256,
   divided by 2^32, select test (below 0.03), valid (below 0.06) or train.
"""

import hashlib
import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import takewhile
from typing import Literal, NamedTuple

from nmt_keras.config import require, require_choice
from nmt_keras.corpus.reading import Pair
from nmt_keras.io.lines import INVISIBLE
from nmt_keras.languages import is_spaceless, without_accents

Part = Literal["train", "valid", "test"]
Side = Literal["source", "target"]

SET_NAMES: Mapping[str, str] = {"train": "training set", "valid": "validation set", "test": "test set"}
"""Names of the sets in messages."""

TEST_BELOW = 0.03
VALID_BELOW = 0.06
MAX_EVALUATION_PAIRS = 5000

_GAP = re.compile(r"[\W_]+")


class SplitCorpus(NamedTuple):
    """A named corpus, split into three sets.

    Attributes:
        name: Name of the corpus. Runs are named after it.
        train, valid, test: Training, validation and test set.
        key_side: Side that names the groups; see ``split_pairs``. It comes first in the lines of ``part_sha256``.
        alignments: A line in Pharaoh's format (see ``corpus.alignments``) for each training pair; ``None`` for no
            alignments.
    """

    name: str
    train: Sequence[Pair]
    valid: Sequence[Pair]
    test: Sequence[Pair]
    key_side: Side = "target"
    alignments: Sequence[str] | None = None


def split_pairs(pairs: Sequence[Pair], *, key_side: Side, names: Sequence[str] | None = None) -> dict[Part, list[Pair]]:
    """Splits pairs into the sets "train", "valid" and "test", each in the order of the corpus.

    Args:
        pairs: The whole corpus. A selection of its pairs may have other groups, and therefore other sets.
        key_side: Side whose keys name the groups. Both directions of translation have the same sets if their key sides
            have the same language. The Spanish-English benchmark uses English: "target" for Spanish to English,
            "source" for English to Spanish.
        names: The result of ``group_names``; ``None`` to compute it.

    Returns:
        All three sets. Sets of a small corpus may be empty.

    Raises:
        ValueError: ``key_side`` is neither "source" nor "target".
    """
    parts: dict[Part, list[Pair]] = {"train": [], "valid": [], "test": []}
    for pair, name in zip(pairs, names or group_names(pairs, key_side=key_side), strict=True):
        number = int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) / 2**32
        parts["test" if number < TEST_BELOW else "valid" if number < VALID_BELOW else "train"].append(pair)
    return parts


def split_corpus(name: str, pairs: Sequence[Pair], *, key_side: Side) -> SplitCorpus:
    """Returns the corpus ``name``, split by ``split_pairs``."""
    parts = split_pairs(pairs, key_side=key_side)
    return SplitCorpus(name, parts["train"], parts["valid"], parts["test"], key_side)


def shuffle_pairs(pairs: Sequence[Pair], *, seed: int, key_side: Side = "target") -> dict[Part, list[Pair]]:
    """Draws 80 % of the sentences of ``key_side`` for "train". The rest is assigned alternately to "valid" and "test".

    Pairs with the same sentence on ``key_side`` stay together (scikit-learn's GroupShuffleSplit). A sentence of the
    other side may occur in two sets. For comparable scores, use ``split_pairs``.

    Args:
        pairs: The corpus.
        seed: Seed of the draw.
        key_side: See ``split_pairs``.

    Returns:
        All three sets, each in the order of the corpus.
    """
    from sklearn.model_selection import GroupShuffleSplit

    keys = [getattr(pair, key_side) for pair in pairs]
    different = len({*keys})
    require(different > 1, "corpus", "at least two different sentences", different, "Pass --valid and --test.")
    train, rest = next(GroupShuffleSplit(n_splits=1, test_size=0.2, random_state=seed).split(keys, groups=keys))
    held = list(dict.fromkeys(keys[i] for i in sorted(rest)))
    valid = set(held[::2])
    parts: dict[Part, list[Pair]] = {"train": [pairs[i] for i in sorted(train)], "valid": [], "test": []}
    for i in sorted(rest):
        parts["valid" if keys[i] in valid else "test"].append(pairs[i])
    return parts


def part_sha256(pairs: Sequence[Pair], *, key_side: Side) -> str:
    """Returns a checksum of a set: the sha256 of its sorted lines, key side<TAB>other side<"\\n">, in UTF-8.

    The checksum does not depend on the order of the pairs or on the direction of translation.
    """
    return hashlib.sha256("".join(sorted(_lines(pairs, key_side))).encode()).hexdigest()


def evaluation_pairs(pairs: Sequence[Pair], *, key_side: Side) -> Sequence[Pair]:
    """Returns at most 5,000 pairs of a set, in order. The pairs whose lines have the smallest sha256 are chosen."""
    if len(pairs) <= MAX_EVALUATION_PAIRS:
        return pairs
    digests = [hashlib.sha256(line.encode()).digest() for line in _lines(pairs, key_side)]
    chosen = sorted(range(len(pairs)), key=digests.__getitem__)[:MAX_EVALUATION_PAIRS]
    return [pairs[i] for i in sorted(chosen)]


def _lines(pairs: Sequence[Pair], key_side: Side) -> list[str]:
    """Returns the lines of the pairs. The key side comes first, so the lines do not depend on the direction."""
    sides = ((pair.target, pair.source) if key_side == "target" else pair for pair in pairs)
    return [f"{first}\t{second}\n" for first, second in sides]


def group_names(pairs: Sequence[Pair], *, key_side: Side) -> list[str]:
    """Returns the name of each pair's group: the smallest key on ``key_side`` of the group's pairs."""
    import numpy as np  # imported here so that `nmt --help` is fast
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    require_choice("key_side", ("source", "target"), key_side)
    nodes: dict[tuple[str, str], int] = {}  # number of each (side, key)
    keys = {side: [sentence_key(getattr(pair, side)) for pair in pairs] for side in ("source", "target")}
    source, target = ([nodes.setdefault((side, key), len(nodes)) for key in keys[side]] for side in keys)
    links = coo_array((np.ones(len(pairs)), (source, target)), shape=(len(nodes), len(nodes)))
    _, component = connected_components(links, directed=False)
    groups = component[source].tolist()
    names: dict[int, str] = {}
    for group, key in zip(groups, keys[key_side], strict=True):
        names[group] = min(names.get(group, key), key)
    return [names[group] for group in groups]


def repetitions(held_out: Sequence[Pair], train: Sequence[Pair]) -> list[int]:
    """Returns the indices of the held-out pairs whose source or target key also occurs in ``train``."""
    sources, targets = ({sentence_key(getattr(pair, side)) for pair in train} for side in ("source", "target"))
    keys = [(sentence_key(pair.source), sentence_key(pair.target)) for pair in held_out]
    return [row for row, (source, target) in enumerate(keys) if source in sources or target in targets]


def sentence_key(sentence: str) -> str:
    """Returns a sentence in normalised form, without differences in case, accents, punctuation and spaces.

    Only Latin, Greek and Cyrillic letters have accents. Marks of all other scripts are part of the word, and spaces
    between letters of a script without spaces are dropped. Letters with the same capital are equal: ß and ss, ı and i.
    A sentence of signs only is returned in NFC.
    """
    words = sentence
    if not (words.isascii() and words.isprintable()):
        words = "".join(character for character in words if not _is_invisible(character))
    words = without_accents(words.strip().upper(), "NFKD").casefold()
    words = _GAP.sub(" " if words.isascii() else _space, words).strip()
    return words or " ".join(unicodedata.normalize("NFC", re.sub(INVISIBLE, "", sentence)).split())


@cache
def _is_invisible(character: str) -> bool:
    is_selector = unicodedata.name(character, "").startswith("VARIATION SELECTOR")
    return is_selector or unicodedata.category(character) == "Cf" or re.match(INVISIBLE, character) is not None


def _space(gap: re.Match[str]) -> str:
    """Returns the marks at the beginning of a gap between letters, and a space if the gap holds something else."""
    marks = "".join(takewhile(lambda character: unicodedata.category(character) in ("Mn", "Mc"), gap[0]))
    around = gap.string[gap.start() - 1 : gap.start()], gap.string[gap.end() : gap.end() + 1]
    return marks if len(marks) == len(gap[0]) or any(map(is_spaceless, filter(None, around))) else f"{marks} "
