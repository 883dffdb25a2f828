"""The built-in sample corpus: 12,500 Spanish-English sentence pairs; needs no network.

A small phrase grammar wrote the sentences, building each phrase in both languages at once: nouns and adjectives agree
(`the red houses`, `las casas rojas`), Spanish pronouns stand before the verb (`She didn't give it to me`, `Ella no me
lo dio`), and many constructions cannot be translated word by word. No two pairs share a sentence on either side. The
pairs are in random order, so any stretch of them is a fair sample.
"""

from __future__ import annotations

from pathlib import Path

from nmt_keras.corpus.reading import Pair, read_pairs

SAMPLE_NAME = "sample"  # the corpus's name on the command line, in run directories and as a served model
SAMPLE_FILE = Path(__file__).with_name("sample.tsv.gz")  # English<TAB>Spanish


def sample_pairs() -> list[Pair]:
    """Returns the pairs of the sample corpus, Spanish to English."""
    return read_pairs(SAMPLE_FILE, source_column=1, target_column=0).pairs
