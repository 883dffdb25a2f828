"""Keras's ``compile`` and ``fit`` on a Seq2Seq."""

from dataclasses import replace
from functools import partial

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensors import assert_same
from tiny import TINY_MODEL, TINY_TEXT

from nmt_keras import (
    BahdanauAttention,
    ConditionalDecoder,
    Decoder,
    Encoder,
    NoAttention,
    SelfAttentionDecoder,
    SelfAttentionEncoder,
    Seq2Seq,
)
from nmt_keras.config import END, START, TrainConfig
from nmt_keras.corpus.batches import Batch
from nmt_keras.layers.losses import MaskedCrossEntropy, masked_cross_entropy
from nmt_keras.models.seq2seq import build_model
from nmt_keras.text import fit_tokenizer
from nmt_keras.text.codec import Codec
from nmt_keras.training.updater import Updater

pytestmark = pytest.mark.long

V = 19
SOURCE = np.array([[5, 6, 7, END], [8, END, 0, 0]], np.int32)
TARGET = np.array([[9, 10, END], [11, END, 0]], np.int32)
READ = np.concatenate([np.full((2, 1), START, np.int32), TARGET[:, :-1]], axis=1)
DRY = replace(TINY_MODEL, dropout=0.0)


def built(config):
    keras.utils.set_random_seed(1)
    return build_model(config, V, V)


def test_one_step_of_fit_is_one_update_of_our_loop():
    by_keras, ours = built(DRY), built(DRY)
    by_keras.compile(optimizer=keras.optimizers.SGD(0.5))
    history = by_keras.fit((SOURCE, READ), TARGET, batch_size=2, verbose=0)
    config = TrainConfig(optimizer="sgd", learning_rate=0.5, clip_norm=None, denominator="tokens", warmup_steps=0)
    updater = Updater(ours, replace(config, label_smoothing=0.0, xla=False, steps=1, minutes=None))
    loss = updater.train_step([Batch(SOURCE, TARGET, 2)], 0, 0.5).loss
    assert history.history["loss"][0] == pytest.approx(float(loss.cross_entropy / loss.tokens), rel=1e-5)
    assert_same(by_keras.trainable_variables, ours.trainable_variables)


def test_fit_adds_the_losses_that_layers_add():
    class Sparse(Encoder):
        def call(self, *args, **kwargs):
            encoding = super().call(*args, **kwargs)
            self.add_loss(tf.constant(7.0))
            return encoding

    losses = []
    for kind in (Encoder, Sparse):
        keras.utils.set_random_seed(1)
        model = Seq2Seq(kind(V, 6, 5), Decoder(V, 6, 8, attention=BahdanauAttention(7)))
        model.compile(optimizer=keras.optimizers.SGD(0.0))
        losses += model.fit((SOURCE, READ), TARGET, batch_size=1, epochs=2, verbose=0).history["loss"]
    np.testing.assert_allclose(np.subtract(losses[2:], losses[:2]), 7.0, rtol=1e-5)


@pytest.mark.parametrize(
    ("rates", "dtype"),
    [
        ({"dropout": 0.5}, None),
        ({"dropout": 0.0, "output_dropout": 0.5}, None),
        ({"dropout": 0.5}, "mixed_float16"),  # Keras wraps the optimizer
    ],
)
def test_each_step_of_fit_draws_its_own_dropout_masks(rates, dtype):
    model = build_model(replace(TINY_MODEL, **rates), V, V, dtype=dtype)
    model.compile(optimizer=keras.optimizers.SGD(0.0, gradient_accumulation_steps=2))
    losses = [model.fit((SOURCE, READ), TARGET, batch_size=2, verbose=0).history["loss"][0] for _ in range(4)]
    assert len(set(losses)) == 4


def test_each_call_in_training_draws_its_own_dropout_masks():
    model = built(replace(TINY_MODEL, dropout=0.5))
    model.compile(optimizer=keras.optimizers.SGD(0.0))
    model.fit((SOURCE, READ), TARGET, verbose=0)
    one, other = (model((SOURCE, READ), training=True).logits.numpy() for _ in range(2))
    assert (one != other).any()


def test_replicas_draw_their_own_dropout_masks(monkeypatch):
    model = built(replace(TINY_MODEL, dropout=0.5))
    model.compile(optimizer=keras.optimizers.SGD(0.0))

    def loss(replica):
        monkeypatch.setattr(type(context), "replica_id_in_sync_group", replica)
        model.optimizer.iterations.assign(0)
        model.reset_metrics()
        return float(model.train_step(((SOURCE, READ), TARGET))["loss"])

    context = tf.distribute.get_replica_context()
    assert loss(0) == loss(0) != loss(1)


@pytest.mark.parametrize("loss", [None, keras.losses.SparseCategoricalCrossentropy(from_logits=True)])
def test_padding_counts_neither_in_losses_nor_in_metrics(loss):
    model = built(DRY)
    model.compile(keras.optimizers.SGD(0.0), loss, metrics=["accuracy"])
    found = model.evaluate((SOURCE, READ), TARGET, verbose=0)
    real, log_probs = TARGET > 0, tf.nn.log_softmax(model((SOURCE, READ)).logits).numpy()
    assert found[0] == pytest.approx(-np.take_along_axis(log_probs, TARGET[..., np.newaxis], -1)[real].mean(), rel=1e-5)
    assert found[1] == pytest.approx((log_probs.argmax(-1) == TARGET)[real].mean())


def test_a_decoder_in_a_functional_model_masks_its_logits():
    annotations, ids = keras.Input((None, 6)), keras.Input((None,), dtype="int32")
    decoder = Decoder(V, 8, 8, attention=BahdanauAttention(8))
    functional = keras.Model((annotations, ids), decoder(ids, annotations).logits)
    functional.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    images, longer = np.random.default_rng(1).normal(size=(2, 4, 6)), ((0, 0), (0, 3))
    once = functional.evaluate((images, READ), TARGET, verbose=0)
    padded = functional.evaluate((images, np.pad(READ, longer)), np.pad(TARGET, longer), verbose=0)
    assert padded == pytest.approx(once, rel=1e-5)


def test_compile_takes_the_arguments_of_keras_and_every_kind_of_metric():
    model = built(DRY)
    smoothed = MaskedCrossEntropy(0.1, name="smoothed")
    model.compile("adam", None, 2.0, [MaskedCrossEntropy(), smoothed, partial(float_mean, scale=1.0)])
    found = model.evaluate((SOURCE, READ), TARGET, verbose=0, return_dict=True)
    assert found["loss"] == pytest.approx(2.0 * found["masked_cross_entropy"], rel=1e-5)
    total = masked_cross_entropy(model((SOURCE, READ)).logits, TARGET, TARGET > 0, 0.1).total
    assert found["smoothed"] == pytest.approx(float(total) / 5, rel=1e-5)


def float_mean(labels, logits, scale):
    """A metric without a name of its own in a ``partial``."""
    return scale * tf.reduce_mean(tf.cast(labels, tf.float32))


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of Keras, as it saves
@pytest.mark.filterwarnings("ignore:.*not (yet )?been built:UserWarning")
def test_a_model_that_was_saved_before_it_was_built_trains(tmp_path):
    model = Seq2Seq(Encoder(V, 8, 8), Decoder(V, 8, 8, attention=BahdanauAttention(8)))
    model.compile("sgd")
    model.save(tmp_path / "m.keras")
    loaded = keras.saving.load_model(tmp_path / "m.keras")
    assert np.isfinite(loaded.fit((SOURCE, READ), TARGET, verbose=0).history["loss"][0])


@pytest.mark.parametrize("rate", [-0.5, 1.0])
@pytest.mark.parametrize("make", [Encoder, partial(Decoder, attention=NoAttention())], ids=["encoder", "decoder"])
@pytest.mark.parametrize("name", ["dropout", "recurrent_dropout"])
def test_a_rate_that_is_no_probability_is_refused(make, name, rate):
    with pytest.raises(ValueError, match=f"{name}: expected a rate from 0 to less than 1"):
        make(V, 8, 8, **{name: rate})


def test_inputs_of_another_form_are_named():
    model = built(DRY)
    with pytest.raises(ValueError, match=r"inputs: expected \(source ids, target inputs\), received "):
        model(SOURCE)
    with pytest.raises(ValueError, match="expected ndim=2, found ndim=1"):
        model.encoder(SOURCE[0])
    ids = model((SOURCE.astype("int64"), READ.astype("int64")), sampling_probability=tf.constant(0.5)).logits
    assert ids.shape == (*READ.shape, V)


def test_what_is_unfrozen_before_a_loaded_model_is_built_stays_so():
    model = built(DRY)
    model.decoder.embedding.trainable = False
    copy = Seq2Seq.from_config(model.get_config())
    copy.decoder.embedding.trainable = True
    copy.build()
    assert copy.decoder.embedding.trainable


@pytest.mark.parametrize(
    ("encoder", "decoder"),
    [
        (Encoder, Decoder),
        (partial(Encoder, cell="tanh", direction="forward"), partial(ConditionalDecoder, cell="tanh")),
        (partial(SelfAttentionEncoder, heads=2), Decoder),
    ],
)
def test_only_one_tanh_cell_on_each_side_shares_a_recurrence(encoder, decoder):
    model = Seq2Seq(encoder(V, 8, 8), decoder(V, 8, 8, attention=NoAttention()), shares_recurrence=True)
    with pytest.raises(ValueError, match="shares_recurrence: expected one tanh cell"):
        model((SOURCE, READ))


def test_a_decoder_that_was_called_shares_no_recurrence():
    encoder, decoder = (
        Encoder(V, 8, 8, cell="tanh", direction="forward"),
        Decoder(V, 8, 8, cell="tanh", attention=NoAttention()),
    )
    decoder(READ, encoder(SOURCE))
    with pytest.raises(ValueError, match="shares_recurrence: expected a decoder that has not been called"):
        Seq2Seq(encoder, decoder, shares_recurrence=True)((SOURCE, READ))


# Freezing


def trainable(model):
    return [variable.path.partition("/")[2] for variable in model.trainable_variables]


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of Keras, as it saves
@pytest.mark.parametrize(
    "freeze",
    [
        lambda model: setattr(model.encoder.blocks[1].self_attention, "trainable", False),
        lambda model: setattr(model.encoder.norm, "trainable", False),
        lambda model: setattr(model.decoder.blocks[1].cross_attention, "trainable", False),
    ],
    ids=["of the second block", "that the encoder makes when it is built", "that the decoder makes when it is built"],
)
def test_what_is_frozen_in_a_model_of_blocks_is_frozen_when_it_is_loaded(freeze, tmp_path):
    sizes = {"heads": 2, "num_layers": 2}
    model = Seq2Seq(SelfAttentionEncoder(V, 8, 8, **sizes), SelfAttentionDecoder(V, 8, 8, **sizes))
    model((SOURCE, READ))
    everything = trainable(model)
    freeze(model)
    model.save(tmp_path / "m.keras")
    loaded = keras.saving.load_model(tmp_path / "m.keras")
    assert trainable(loaded) == trainable(model) != everything


def test_tokens_have_weights_and_a_batch_of_padding_changes_nothing():
    model = built(DRY)
    model.compile(keras.optimizers.SGD(0.5))
    alone = model.evaluate((SOURCE[:1], READ[:1]), TARGET[:1], verbose=0)
    weighted = model.evaluate((SOURCE, READ), TARGET, sample_weight=np.array([[1.0] * 3, [0.0] * 3]), verbose=0)
    assert weighted * 5 / 3 == pytest.approx(alone)  # Keras divides by the 5 tokens, 3 of which have weight 1
    before = [variable.numpy() for variable in model.trainable_variables]
    assert model.fit((SOURCE, READ), np.zeros_like(TARGET), verbose=0).history["loss"] == [0.0]
    assert_same(model.trainable_variables, before, rtol=0.0, atol=0.0)


def test_examples_are_batches_of_similar_lengths_that_fit_reads():
    spanish = ["a b c", "a", "b a " * 13, "c", "a c " * 13]
    codec = Codec(*(fit_tokenizer(TINY_TEXT, spanish) for _ in range(2)))
    batches = codec.examples(spanish, spanish, batch_size=2)
    seen = []
    for (source, read), target in batches:
        np.testing.assert_array_equal(read[:, 1:] * (target[:, 1:] > 0), target[:, :-1] * (target[:, 1:] > 0))
        assert read.shape == target.shape == source.shape
        assert source.shape[0] <= 2
        widths = tf.math.count_nonzero(source, axis=1).numpy()
        assert widths.max() < 8 or widths.min() > 24
        seen += [codec.source_tokenizer.decode(source[b, tf.newaxis])[0].numpy().decode() for b in range(len(source))]
    assert sorted(seen) == sorted(sentence.strip() for sentence in spanish)
    model = build_model(DRY, codec.source_tokenizer.vocabulary_size, codec.target_tokenizer.vocabulary_size)
    model.compile("adam")
    assert np.isfinite(model.fit(batches, shuffle=False, verbose=0).history["loss"][0])
    assert len(batches) == len(list(batches)) == 3
