"""Validation during training: cross-entropy of all pairs, and BLEU of a sample."""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from nmt_keras.config import TrainConfig
from nmt_keras.corpus import Pair
from nmt_keras.corpus.batches import Batches, choose_buckets, rows_by_bucket
from nmt_keras.corpus.encoding import encode_pairs
from nmt_keras.corpus.options import CorpusOptions
from nmt_keras.evaluation.metrics import bleu
from nmt_keras.models.seq2seq import Seq2Seq
from nmt_keras.training import batch_loss
from nmt_keras.translation.model_translator import ModelTranslator

MAX_ROWS = 128
"""Maximum number of sentences in a validation batch. Validation runs on one device, even if several devices train."""


def validation(
    model: Seq2Seq,
    translator: ModelTranslator,
    pairs: Sequence[Pair],
    config: TrainConfig,
    origin: CorpusOptions | None = None,
) -> Callable[[], dict[str, float]]:
    """Returns a function that evaluates ``model`` on ``pairs`` with its current weights.

    The function returns two values. ``valid_loss`` is the cross-entropy of all pairs in nats per token, without label
    smoothing or dropout. ``valid_bleu`` is the BLEU of ``config.validation_sentences`` evenly spaced pairs.

    Args:
        model: The model.
        translator: Translator with ``model``.
        pairs: The validation set.
        config: Configuration of training. Validation batches are at most as large as training batches.
        origin: Options of the corpus. BLEU uses their target language and tokenizer.
    """
    source, target, _ = encode_pairs(translator.codec, pairs)
    buckets = choose_buckets(source.lengths, target.lengths, count=8)
    rows = rows_by_bucket(buckets, config.batch_size, config.batch_tokens)
    rows = {bucket: min(count, MAX_ROWS) for bucket, count in rows.items()}
    batches = Batches(source, target, batch_size=rows, buckets=buckets, pool_size=len(pairs), seed=0)
    ids = tf.TensorSpec([None, None], tf.int32)
    measure = tf.function(
        lambda source, target: batch_loss(model, source, target, smoothing=0.0),
        input_signature=[ids, ids],
        autograph=False,
    )
    spaced = np.linspace(0, len(pairs) - 1, config.validation_sentences)
    sample = [pairs[i] for i in np.unique(spaced.astype(int))]
    language, tokenizer = (origin.languages[1], origin.bleu_tokenizer) if origin else (None, None)

    def validate() -> dict[str, float]:
        losses = [measure(batch.source, batch.target) for batch in batches.epoch(0)]
        total = sum(float(loss.cross_entropy) for loss in losses)
        hypotheses = [found.text for found in translator.translate([pair.source for pair in sample])]
        return {
            "valid_loss": total / sum(float(loss.tokens) for loss in losses),
            "valid_bleu": bleu(hypotheses, [pair.target for pair in sample], language, tokenizer).value,
        }

    return validate
