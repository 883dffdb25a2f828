"""Built-in sample corpus: 12,500 Spanish-English sentence pairs with about 400 Spanish and 230 English words.

A phrase grammar generated the pairs: statements, questions, exclamations and requests in three tenses, with agreement,
pronouns, possessives, comparisons and relative clauses. Some cannot be translated word by word: gustar, ser and estar,
tener hambre, the personal a. Each sentence has one translation, in both directions:

- Spanish drops only the pronouns I, you and we.
- `it` and `them` are masculine unless the sentence contains the noun.
- Plain statements about `you` are negative, and questions are not. Otherwise they would differ only in punctuation.
- A time is given if the verb form does not show the tense.

The pairs are sorted by the sha256 of the English sentence, so any slice is a random sample.
"""

from pathlib import Path

from nmt_keras.corpus.reading import Pair, read_pairs

SAMPLE_NAME = "sample"  # name of the corpus on the command line, of its run directory and of its served model

SAMPLE_FILE = Path(__file__).with_name("sample.tsv.bz2")
"""Table with the columns English<TAB>Spanish."""


def sample_pairs() -> list[Pair]:
    """Returns the pairs of the sample corpus, Spanish to English."""
    return read_pairs(SAMPLE_FILE, source_column=1, target_column=0).pairs
