"""Built-in sample corpus: Spanish-English sentence pairs from a small phrase grammar. It needs no network.

Each phrase is built in both languages at once. A noun phrase agrees in number and gender (`the red houses`, `las casas
rojas`). A clause joins a subject, a verb in a tense and a complement, as a statement or a question. English uses
do-support, and Spanish puts pronouns before the verb (`She didn't give it to me`, `Ella no me lo dio`). Some
constructions cannot be translated word by word: gustar, ser and estar, tener hambre, the personal a, possessives,
comparisons, relative clauses and reasons.

Words are drawn by hash, so the corpus is the same on every machine. Each sentence has one translation, in both
directions:

- Spanish drops only the pronouns I, you and we.
- `it` and `them` are masculine unless the sentence contains the noun.
- Plain statements about `you` are negative, and questions are not. Otherwise they would differ only in punctuation.
- A time is given if the verb form does not show the tense.
"""

from __future__ import annotations

from hashlib import sha256
from itertools import count

from nmt_keras.corpus.reading import Pair
from nmt_keras.corpus.sample.constructions import CONSTRUCTIONS
from nmt_keras.corpus.sample.phrases import Draw, Texts

SAMPLE_NAME = "sample"  # name of the corpus on the command line, of its run directory and of its served model


def sample_pairs() -> list[Pair]:
    """Returns the pairs of the sample corpus, Spanish to English.

    They are sorted by the sha256 of the English sentence, so any slice is a random sample.
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
