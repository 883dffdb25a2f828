"""The built-in sample corpus: Spanish-English sentence pairs from a small phrase grammar of our own; needs no network.

A sentence grows from phrases that are built in both languages at once. A noun phrase agrees in number and gender
(`the red houses`, `las casas rojas`); a clause joins a subject, a verb in a tense and a complement, and is read out as
a statement or a question: English with do-support, Spanish with its pronouns before the verb (`She didn't give it to
me`, `Ella no me lo dio`). Around the clause stand the constructions where word for word fails: gustar, ser and estar,
tener hambre, the personal a, owners after what they own, comparisons, relative clauses and reasons.

Words are drawn by hash, so the corpus is the same on every machine and every Python. Both directions are functions:
who `you`, `it` or a dropped subject is can always be told from the sentence. For this, Spanish drops only I, you and
we; `it` and `them` are masculine unless the sentence names what they stand for; plain statements about `you` are
negated and questions not, or they would differ in punctuation alone; a time is named where a verb hides its tense.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256
from itertools import count

from nmt_keras.corpus.sample.constructions import CONSTRUCTIONS
from nmt_keras.corpus.sample.phrases import Draw, Pair

SAMPLE_NAME = "sample"
"""What the corpus is called on a command line, in run directories and as a served model."""

SAMPLE_SHA256 = "c330491bd228149e03effb0fd1be35ffcd264cd208e2516c303e991fe56c40eb"
"""Of the sorted lines `English<TAB>Spanish`, joined and ended by a newline, UTF-8."""


def draw_pairs(construct: Callable[[Draw], Pair]) -> Iterator[Pair]:
    """A construction's pairs without end, repetitions among them."""
    return (construct(Draw(f"{construct.__name__} {attempt}")) for attempt in count())


def sample_pairs() -> list[tuple[str, str]]:
    """The sample corpus as (English, Spanish), no pair twice.

    The order is a fixed shuffle, by sha256 of the English sentence, so that any stretch of it is a fair sample.
    """
    pairs: set[Pair] = set()
    for construct, wanted in CONSTRUCTIONS:
        size = len(pairs) + wanted
        for pair in draw_pairs(construct):
            pairs.add(pair)
            if len(pairs) == size:
                break
    return sorted(pairs, key=lambda pair: sha256(pair[0].encode()).digest())
