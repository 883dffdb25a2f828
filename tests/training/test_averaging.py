"""Gradient accumulation and precision."""

import keras
import numpy as np
import pytest
from bigram import Bigram, V, config
from tensors import assert_same
from tiny import TINY_MODEL

from nmt_keras.corpus.batches import Batch
from nmt_keras.models.seq2seq import build_model
from nmt_keras.training import Updater
from nmt_keras.training.stability import FIRST_LOSS_SCALE

PAD, END = 0, 3


# Accumulation


@pytest.mark.parametrize("denominator", ["tokens", "sentences"])
def test_batches_that_are_added_are_one_large_batch(denominator):
    """The batches have 3, 1 and 2 sentences of different lengths. The mean of their mean gradients would differ."""
    random = np.random.default_rng(2)
    source, target = random.integers(4, V, (6, 5)).astype(np.int32), random.integers(4, V, (6, 4)).astype(np.int32)
    target[[0, 3], 2:] = PAD
    parts = [slice(0, 3), slice(3, 4), slice(4, 6)]
    several = [Batch(source[rows], target[rows], len(source[rows])) for rows in parts]
    updated = []
    for group in (several, [Batch(source, target, 6)]):
        keras.utils.set_random_seed(5)
        model = Bigram(rate=0.0)
        settings = config(
            gradient_accumulation_steps=len(group), denominator=denominator, clip_norm=0.05, optimizer="sgd"
        )
        metrics = Updater(model, settings).train_step(group, 4, 0.05)
        updated.append([*model.get_weights(), *map(float, metrics.loss), float(metrics.gradient_norm)])
    assert_same(*updated, rtol=1e-5, atol=0.0)


def test_batches_of_one_update_and_of_the_next_have_dropout_masks_of_their_own(batches):
    batch, settings = next(batches.epoch(0)), config(gradient_accumulation_steps=2, optimizer="sgd")

    def losses(rate):
        keras.utils.set_random_seed(5)
        updater = Updater(Bigram(rate=rate), settings)
        one, both, following = (
            updater.train_step([batch] * count, step, 1e-30) for count, step in ((1, 0), (2, 0), (1, 1))
        )
        first, second = float(one.loss.total), float(both.loss.total) - float(one.loss.total)
        return first, second, float(following.loss.total)

    assert losses(0.0) == pytest.approx([losses(0.0)[0]] * 3)
    assert len({round(loss, 4) for loss in losses(0.5)}) == 3


# Precision


@pytest.mark.long
def test_a_real_model_learns_in_float16_with_weights_in_single(dtype_policy):
    dtype_policy("mixed_float16")
    model = build_model(TINY_MODEL, V, V)
    updater = Updater(model, config(precision="mixed_float16", warmup_steps=0, decay="constant", learning_rate=0.02))
    source = np.array([[5, 6, END], [7, END, PAD]], np.int32)
    batch = Batch(source, source, 2)
    losses = [float(updater.train_step([batch], step, 0.02).loss.cross_entropy) for step in range(8)]
    assert {variable.dtype for variable in model.trainable_variables} == {"float32"}
    assert model.encoder.compute_dtype == "float16"
    assert losses[-1] < 0.9 * losses[0]
    assert (int(updater.stability.skipped), float(updater.stability.scale)) == (0, FIRST_LOSS_SCALE)


@pytest.mark.parametrize("fields", [{}, {"precision": "bfloat16-products", "xla": True}])
def test_a_model_that_computes_in_bfloat16_is_trained_in_no_other_precision(dtype_policy, fields):
    dtype_policy("mixed_bfloat16")
    model = build_model(TINY_MODEL, V, V)
    Updater(model, config(precision="mixed_bfloat16"))
    with pytest.raises(ValueError, match=r"policy float32 .* received 'mixed_bfloat16'"):
        Updater(model, config(**fields))
