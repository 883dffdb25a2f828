"""Parallel corpora: download, reading, checks of each line, and a split without leaks.

A corpus file becomes three lists of ``Pair``:

    fetch_corpus -> read_pairs or read_parallel -> Corpus(pairs, report) -> split_corpus

None of the functions exported here needs TensorFlow.
"""

from nmt_keras.corpus.download import SPANISH_ENGLISH_SHA256, SPANISH_ENGLISH_URL, CorpusUnavailable, fetch_corpus
from nmt_keras.corpus.options import CorpusOptions
from nmt_keras.corpus.reading import Corpus, Fault, FaultyLine, Pair, ReadReport, read_pairs, read_parallel
from nmt_keras.corpus.sample import SAMPLE_NAME
from nmt_keras.corpus.split import (
    SET_NAMES,
    Side,
    SplitCorpus,
    evaluation_pairs,
    group_names,
    part_sha256,
    repetitions,
    sentence_key,
    shuffle_pairs,
    split_corpus,
    split_pairs,
)

__all__ = [
    "SAMPLE_NAME",
    "SET_NAMES",
    "SPANISH_ENGLISH_SHA256",
    "SPANISH_ENGLISH_URL",
    "Corpus",
    "CorpusOptions",
    "CorpusUnavailable",
    "Fault",
    "FaultyLine",
    "Pair",
    "ReadReport",
    "Side",
    "SplitCorpus",
    "evaluation_pairs",
    "fetch_corpus",
    "group_names",
    "part_sha256",
    "read_pairs",
    "read_parallel",
    "repetitions",
    "sentence_key",
    "shuffle_pairs",
    "split_corpus",
    "split_pairs",
]
