"""What a run learns about words from its training pairs: the lexicon, and the lexical table of shortlists."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nmt_keras.corpus import Pair
from nmt_keras.corpus.batching import encode_lines
from nmt_keras.corpus.shards import PreparedCorpus
from nmt_keras.runs.directory import LEXICON, SHORTLIST
from nmt_keras.runs.training import load_tokenizers
from nmt_keras.search.shortlist import learn_lexical_table, save_lexical_table
from nmt_keras.translation.model_translator import ModelTranslator
from nmt_keras.translation.unknown_words import learn_lexicon, save_lexicon

SHORTLIST_PAIRS = 400_000
"""Maximum number of pairs for the lexical table: about ten seconds for short sentences on two cores."""

LEXICON_PAIRS = 40_000
"""Maximum number of pairs for the lexicon: about two minutes on two cores."""


def learn_run_lexicon(folder: Path, translator: ModelTranslator, pairs: Sequence[Pair]) -> int:
    """Writes the lexicon learnt from the translator's alignments of ``pairs``; returns its number of entries."""
    taken = spaced(pairs, LEXICON_PAIRS)
    lexicon = learn_lexicon(translator.align([pair.source for pair in taken], [pair.target for pair in taken]))
    save_lexicon(lexicon, folder / LEXICON)
    return len(lexicon)


def learn_run_shortlist(folder: Path, corpus: Sequence[Pair] | PreparedCorpus) -> None:
    """Writes the lexical table learnt from training pairs, or from a prepared corpus."""
    tokenizers = load_tokenizers(folder)
    if isinstance(corpus, PreparedCorpus):
        source, target = corpus.read_some(SHORTLIST_PAIRS)
    else:
        taken = spaced(corpus, SHORTLIST_PAIRS)
        source, _ = encode_lines(tokenizers[0], [pair.source for pair in taken])
        target, _ = encode_lines(tokenizers[1], [pair.target for pair in taken])
    sizes = [tokenizer.vocabulary_size for tokenizer in tokenizers]
    save_lexical_table(learn_lexical_table(source, target, *sizes), folder / SHORTLIST)


def spaced(pairs: Sequence[Pair], count: int) -> Sequence[Pair]:
    """Returns at most ``count`` of the pairs, evenly spaced."""
    return pairs[:: max(1, -(-len(pairs) // count))]
