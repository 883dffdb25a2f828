"""The built-in sample corpus: Spanish-English sentence pairs from a small phrase grammar of our own; needs no network.

Each phrase is built in both languages at once. A noun phrase agrees in number and gender (`the red houses`, `las casas
rojas`). A clause joins a subject, a verb in a tense and a complement, and is read out as a statement or a question:
English with do-support, Spanish with its pronouns before the verb (`She didn't give it to me`, `Ella no me lo dio`).
Around the clause stand constructions that cannot be translated word by word: gustar, ser and estar, tener hambre, the
personal a, owners after what they own, comparisons, relative clauses and reasons.

Words are drawn by hash, so the corpus is the same on every machine. Translation is a function in both directions:
Spanish drops only I, you and we; `it` and `them` are masculine unless the sentence names what they stand for; plain
statements about `you` are negated and questions not, or they would differ in punctuation alone; a time is named where a
verb hides its tense.
"""

from __future__ import annotations

from hashlib import sha256
from itertools import count

from nmt_keras.corpus.reading import Pair
from nmt_keras.corpus.sample.constructions import CONSTRUCTIONS
from nmt_keras.corpus.sample.phrases import Draw, Texts

SAMPLE_NAME = "sample"  # the corpus's name on the command line, in run directories and as a served model


def sample_pairs() -> list[Pair]:
    """Returns the pairs of the sample corpus, Spanish to English.

    Their order is a fixed shuffle, by sha256 of the English sentence, so any stretch of it is a fair sample.
    """
    found: set[Texts] = set()
    for construct, wanted in CONSTRUCTIONS:
        size = len(found) + wanted
        for attempt in count():
            found.add(construct(Draw(f"{construct.__name__} {attempt}")))
            if len(found) == size:
                break
    shuffled = sorted(found, key=lambda texts: sha256(texts[0].encode()).digest())
    return [Pair(source=spanish, target=english) for english, spanish in shuffled]
