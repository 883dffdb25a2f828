"""Splits a corpus into train, valid and test so that no sentence, on either side, stands in two parts.

A random split leaks: one English sentence of the Spanish-English corpus has up to 40 Spanish versions. Here pairs that
share a sentence form a group, and a hash of the group's name alone says where it goes: no seed, no dependence on order,
and a corpus that grows moves no sentence whose group keeps its name.

1. ``sentence_key`` of a sentence: NFKD, lower case, combining marks dropped, all else but letters and digits one space.
2. Pairs that share the key of a source or of a target are linked; groups are the connected components.
3. A group's name is the smallest key of its ``key_side``, by code point. The first 8 hex digits of the name's sha256,
   divided by 2^32, put it into test (below 0.03), valid (below 0.06) or train.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from typing import Literal, NamedTuple

from nmt_keras.config import require_choice
from nmt_keras.corpus.reading import Pair

Part = Literal["train", "valid", "test"]
Side = Literal["source", "target"]


class SplitCorpus(NamedTuple):
    """A corpus under the name that its runs carry, in three parts that share no sentence."""

    name: str
    train: Sequence[Pair]
    valid: Sequence[Pair]
    test: Sequence[Pair]
    key_side: Side = "target"
    """The side by which pairs were grouped and which their checksums write first; see ``split_pairs``."""
    alignments: Sequence[str] | None = None
    """Of each pair to train on, a line in Pharaoh's format (see ``corpus.alignments``), for attention to learn from."""


TEST_BELOW = 0.03
VALID_BELOW = 0.06


def split_pairs(pairs: Sequence[Pair], *, key_side: Side) -> dict[Part, list[Pair]]:
    """Splits pairs into the parts "train", "valid" and "test", each in the order of the corpus.

    Args:
        pairs: the whole corpus. Splitting a selection of it may give other groups, and so other parts.
        key_side: the side whose keys name the groups. It belongs to the corpus, not to the direction of translation:
            the Spanish-English benchmark takes the English side, "target" when translating into English and "source"
            when translating from it. Either way the parts hold the same sentences.

    Returns:
        All three parts; those of a small corpus may be empty.

    Raises:
        ValueError: ``key_side`` is neither "source" nor "target".
    """
    parts: dict[Part, list[Pair]] = {"train": [], "valid": [], "test": []}
    for pair, name in zip(pairs, group_names(pairs, key_side=key_side), strict=True):
        parts[_part_of(name)].append(pair)
    return parts


def split_corpus(name: str, pairs: Sequence[Pair], *, key_side: Side) -> SplitCorpus:
    """Splits pairs as ``split_pairs`` does, into a corpus that keeps which side it was split by."""
    parts = split_pairs(pairs, key_side=key_side)
    return SplitCorpus(name, parts["train"], parts["valid"], parts["test"], key_side)


def shuffle_pairs(pairs: Sequence[Pair], *, seed: int) -> dict[Part, list[Pair]]:
    """Draws 80 % of the pairs to train on; of the rest, by turns, one to validate and one to test on.

    Pairs with the same target sentence stay together (scikit-learn's GroupShuffleSplit), so that no target stands on
    both sides; a source may. For figures that others can compare with, use ``split_pairs``.

    Args:
        pairs: at least two target sentences.
        seed: of the draw; the same one gives the same parts.

    Returns:
        All three parts, each in the order of the corpus.

    Raises:
        ValueError: there are fewer than three target sentences.
    """
    from sklearn.model_selection import GroupShuffleSplit

    targets = [pair.target for pair in pairs]
    if len(set(targets)) < 3:
        raise ValueError(
            f"pairs: expected at least 3 different target sentences to split, received {len(set(targets))}."
        )
    drawn = GroupShuffleSplit(n_splits=1, test_size=0.2, random_state=seed)
    train, rest = next(drawn.split(targets, groups=targets))
    held = list(dict.fromkeys(targets[i] for i in sorted(rest)))
    valid = set(held[::2])
    parts: dict[Part, list[Pair]] = {"train": [pairs[i] for i in sorted(train)], "valid": [], "test": []}
    for i in sorted(rest):
        parts["valid" if targets[i] in valid else "test"].append(pairs[i])
    return parts


def part_sha256(pairs: Sequence[Pair], *, key_side: Side) -> str:
    """Computes the sha256 of the pairs' sorted lines: key side<TAB>other side, each ended by "\\n", in UTF-8.

    It identifies a part whatever its order and direction, so that scores can name the sentences they were measured on.
    """
    require_choice("key_side", ("source", "target"), key_side)
    lines = sorted(
        f"{pair.target}\t{pair.source}\n" if key_side == "target" else f"{pair.source}\t{pair.target}\n"
        for pair in pairs
    )
    return hashlib.sha256("".join(lines).encode("utf-8")).hexdigest()


def group_names(pairs: Sequence[Pair], *, key_side: Side) -> list[str]:
    """Names the group of each pair: the smallest key that the pairs linked with it have on ``key_side``."""
    require_choice("key_side", ("source", "target"), key_side)
    keys = [(sentence_key(pair.source), sentence_key(pair.target)) for pair in pairs]
    groups = _Groups()
    first_with_source: dict[str, int] = {}
    first_with_target: dict[str, int] = {}
    for pair, (source, target) in enumerate(keys):
        groups.add()
        groups.link(pair, first_with_source.setdefault(source, pair))
        groups.link(pair, first_with_target.setdefault(target, pair))
    names: dict[int, str] = {}
    for pair, (source, target) in enumerate(keys):
        group, key = groups.root(pair), target if key_side == "target" else source
        names[group] = min(names.get(group, key), key)
    return [names[groups.root(pair)] for pair in range(len(keys))]


def repetitions(held_out: Sequence[Pair], train: Sequence[Pair]) -> int:
    """How many pairs of a held-out part have a source or a target that ``train`` has, too: see ``sentence_key``."""
    sources, targets = ({sentence_key(getattr(pair, side)) for pair in train} for side in ("source", "target"))
    return sum(sentence_key(pair.source) in sources or sentence_key(pair.target) in targets for pair in held_out)


def sentence_key(sentence: str) -> str:
    """Folds a sentence to what makes it a repetition of another: case, accents, punctuation and spaces do not."""
    folded = unicodedata.normalize("NFKD", sentence).lower()
    if not folded.isascii():
        folded = "".join(character for character in folded if unicodedata.category(character) != "Mn")
    return re.sub(r"[\W_]+", " ", folded).strip()


class _Groups:
    """Disjoint sets of the numbers 0, 1, 2, ... (union-find)."""

    def __init__(self) -> None:
        self._parents: list[int] = []

    def add(self) -> None:
        self._parents.append(len(self._parents))

    def link(self, first: int, second: int) -> None:
        self._parents[self.root(first)] = self.root(second)

    def root(self, number: int) -> int:
        parents = self._parents
        while parents[number] != number:
            parents[number] = number = parents[parents[number]]  # halves the path, so that later walks are short
        return number


def _part_of(group_name: str) -> Part:
    number = int(hashlib.sha256(group_name.encode("utf-8")).hexdigest()[:8], 16) / 2**32
    if number < TEST_BELOW:
        return "test"
    return "valid" if number < VALID_BELOW else "train"
