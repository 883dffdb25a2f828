"""Decoders of every kind against the papers' equations, and teacher forcing against single steps."""

from dataclasses import replace
from typing import Any, NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf
from combinations import COMBINATIONS
from reference import decode, weights_of
from tensors import assert_same, normal, padded
from tiny import randomise

from nmt_keras.layers.attention import BahdanauAttention, GlobalAttention
from nmt_keras.layers.bridges import CopyBridge, DenseBridge
from nmt_keras.layers.dropout import Randomness
from nmt_keras.layers.local_attention import PredictiveLocalAttention
from nmt_keras.layers.output import MaxoutOutput, OutputLayer, StateOutput
from nmt_keras.layers.scores import DotScore
from nmt_keras.layers.self_attention import MultiHead
from nmt_keras.layers.stack import StackMasks
from nmt_keras.models.encoder import Encoder, SelfAttentionEncoder
from nmt_keras.models.recurrent_decoder import ConditionalDecoder, Decoder
from nmt_keras.models.self_attention_decoder import SelfAttentionDecoder
from nmt_keras.models.seq2seq import Seq2Seq, build_model

START, END = 2, 3
PAIRS = [([4, 5, 6, 7, END], [8, 9, END]), ([END], [10, 11, 12, 13, 14, END]), ([16, 17, END], [END])]
S, T = 7, 6


def built(config, seed=3, dtype=None):
    model = build_model(config, 19, 23, dtype)
    randomise(model, seed)
    return model


SOURCES, _ = padded([source for source, _ in PAIRS], S)
IDS, _ = padded([[START, *target[:-1]] for _, target in PAIRS], T)


class Case(NamedTuple):
    model: Seq2Seq
    memory: Any
    output: Any


@pytest.fixture(scope="module", params=COMBINATIONS)
def case(request):
    """A model with random weights and its output under teacher forcing, for each combination."""
    model = built(COMBINATIONS[request.param], dtype="float64")
    return Case(model, model.encode(SOURCES), model((SOURCES, IDS)))


# Every combination


def test_logits_and_alignments_match_the_papers_equations(case):
    weights = weights_of(case.model)
    for b, (source, target) in enumerate(PAIRS):
        logits, alignments = decode(weights, source, target)
        np.testing.assert_allclose(case.output.logits[b, : len(target)], logits, atol=5e-6)
        np.testing.assert_allclose(case.output.alignment[b, : len(target), : len(source)], alignments, atol=2e-6)
        assert not case.output.alignment[b, :, len(source) :].numpy().any()


def test_teacher_forcing_equals_one_step_after_another(case):
    advance, state = case.model.step, case.model.initial_state(case.memory)
    for t in range(T):
        step = advance(IDS[:, t : t + 1], state, case.memory)
        assert_same((step.logits[:, 0], step.alignment[:, 0]), [each[:, t] for each in case.output], atol=1e-6)
        state = step.state
        assert (state.position.numpy() == t + 1).all()


def test_hypotheses_share_one_memory_and_do_not_meet(case):
    advance, memory = case.model.step, case.memory
    first = case.model.initial_state(memory)
    apart = [advance(tf.fill([len(PAIRS), 1], token), first, memory) for token in (START, 9, 11)]
    state = tf.nest.map_structure(lambda *x: tf.concat(x, axis=1), *(step.state for step in apart))
    together = advance(tf.constant([[9, START, 11]] * len(PAIRS)), state, memory)
    for q, token in enumerate((9, START, 11)):
        alone = advance(tf.fill([len(PAIRS), 1], token), apart[q].state, memory)
        found = tf.nest.map_structure(lambda x, q=q: x[:, q], together)
        assert_same(found, tf.nest.map_structure(lambda x: x[:, 0], alone), atol=2e-6)


def test_teacher_forcing_of_self_attention_is_no_loop_over_the_positions_of_a_search():
    config = COMBINATIONS["self-attention"]
    short = built(replace(config, decoder=replace(config.decoder, max_positions=2)))
    np.testing.assert_allclose(short((SOURCES, IDS)).logits, built(config)((SOURCES, IDS)).logits, atol=1e-6)


# Dropout


def test_both_cells_of_a_conditional_decoder_read_the_state_through_its_mask():
    model = built(COMBINATIONS["conditional"])
    decoder = model.decoder
    memory = model.encode(SOURCES)
    state, x = model.initial_state(memory), decoder.embed(IDS[:, :1])
    (mask,) = np.random.default_rng(5).choice([0.0, 2.0], [1, len(PAIRS), 1, 11]).astype(np.float32)
    next_state, (current, attended) = decoder.advance(x._replace(masks=StackMasks((), (mask,))), state, memory)
    between = decoder.word_cell.advance(x.projected, state.cell_states[0], mask)
    wanted = decoder.attention.attend(between, state.position, memory)
    (cell,) = decoder.stack.cells
    projected = cell.bias.value + cell.project_context(decoder.attention.context(wanted, memory))
    np.testing.assert_allclose(attended.alpha, wanted.alpha, atol=1e-6)
    np.testing.assert_allclose(current, cell.advance(projected, between, mask), atol=1e-6)
    np.testing.assert_array_equal(next_state.cell_states[0], current)


def test_dropout_of_the_output_is_separate_from_that_of_the_embeddings():
    everything = 1.0 - 2.0**-25  # draws are multiples of 2^-24, so everything is dropped
    linear, randomness = COMBINATIONS["rnnsearch-linear"], Randomness(1, 1)
    model = built(replace(linear, dropout=everything, output_dropout=0.0))
    encoding = model.encoder(SOURCES)
    logits = model.decoder(IDS, encoding, randomness=randomness).logits
    model.decoder.embedding.embeddings.assign(tf.zeros_like(model.decoder.embedding.embeddings))
    np.testing.assert_allclose(logits, model.decoder(IDS, encoding).logits, rtol=1e-5, atol=1e-6)

    model = built(replace(linear, dropout=0.0, output_dropout=everything))
    logits = model.decoder(IDS, model.encoder(SOURCES), randomness=randomness).logits
    np.testing.assert_allclose(logits, tf.broadcast_to(model.decoder.output_layer.output_bias, logits.shape))


# The lecture's decoder


def test_the_lecture_s_two_halves_hold_one_recurrent_matrix():
    lecture = built(COMBINATIONS["lecture"])
    names = sorted(v.name for v in lecture.trainable_variables)
    both = ["bias", "embeddings"]  # the target embedding is unused
    assert names == sorted([*both, *both, "kernel", "recurrent", "output_kernel", "output_bias"])
    assert lecture.decoder.stack.cells[0].recurrent is lecture.encoder.forward_cells[0].recurrent
    assert lecture.count_params() == 23 * 5 + 23 + 7 * 23 + 7 + 19 * 5 + 7 + 5 * 7 + 7 * 7


# As layers


def test_a_model_comes_back_from_its_configuration(case):
    copy = Seq2Seq.from_config(case.model.get_config())
    copy.build()
    assert copy.get_config() == case.model.get_config()
    copy.set_weights(case.model.get_weights())
    np.testing.assert_array_equal(copy((SOURCES, IDS)).logits, case.output.logits)


# Encoders and decoders outside of Seq2Seq


SIZES = {"vocabulary_size": 23, "embedding_size": 4, "units": 6}


@pytest.mark.parametrize(
    ("encoder", "source"),
    [
        (Encoder(**SIZES), "backward"),
        (Encoder(**SIZES, direction="forward"), "forward"),
        (SelfAttentionEncoder(**SIZES, heads=3), "mean"),
    ],
)
def test_the_default_initial_state_reads_what_the_encoder_has(encoder, source):
    decoder = Decoder(**SIZES, attention=BahdanauAttention(11))
    Seq2Seq(encoder, decoder)((SOURCES, IDS))
    assert decoder.bridge.source == source


def test_training_applies_dropout_with_keras_s_seed():
    encoder = Encoder(**SIZES, dropout=0.5)
    decoder = Decoder(**SIZES, attention=BahdanauAttention(11), dropout=0.5)
    encoding, plain = encoder(SOURCES), encoder(SOURCES, training=False)
    assert_same(encoding, plain, atol=0.0)
    for seed in (5, 7):
        keras.utils.set_random_seed(seed)
        first, second = (encoder(SOURCES, training=True).values for _ in range(2))
        keras.utils.set_random_seed(seed)
        np.testing.assert_array_equal(encoder(SOURCES, training=True).values, first)
        assert np.abs(first - second).max() > 0.0
        assert np.abs(first - encoding.values).max() > 0.0
    dropped = decoder(IDS, encoding, training=True).logits
    assert np.abs(dropped - decoder(IDS, encoding).logits).max() > 0.0


def test_an_output_layer_that_reads_the_state_alone_reads_the_current_state():
    decoder = Decoder(**SIZES, attention=BahdanauAttention(3), output_layer=StateOutput(23))
    assert decoder.output_state == "current"  # s_{i-1} depends on neither the previous word nor the context


@pytest.mark.parametrize("transpose", [False, True])
def test_an_output_layer_multiplies_a_context_in_a_decoder_as_it_does_alone(transpose):
    class OfContext(OutputLayer):
        def build(self, *shapes):
            super().build(*shapes)
            self.context_kernel = self.add_weight((11, 11), name="context_kernel")
            self.bias = self.add_weight((11,), "ones", name="bias")

        def size_of_features(self, shapes):
            return 11

        def features(self, state, context, embedded):
            return self.matmul(context, self.context_kernel, self.bias, transpose=transpose)

    layer, annotations = OfContext(23), normal(3, 7, 11)
    found = Decoder(**SIZES, attention=BahdanauAttention(3), output_layer=layer)(IDS, annotations)
    context = tf.matmul(found.alignment, annotations)
    np.testing.assert_allclose(found.logits, layer.logits(layer.features(None, context, None)), atol=1e-5)


@pytest.mark.parametrize("is_built", [False, True])
def test_the_output_layer_of_a_self_attention_decoder_reads_embeddings_of_its_width(is_built):
    class OfWords(StateOutput):
        reads = ("state", "embedded")

        def size_of_features(self, shapes):
            return shapes["state"][-1] + shapes["embedded"][-1]

        def features(self, state, context, embedded):
            return tf.concat([state, embedded], axis=-1)

    layer = OfWords(23)
    if is_built:
        layer.build((None, None, 8), None, (None, None, 8))
    decoder = SelfAttentionDecoder(23, 6, 8, heads=2, output_layer=layer)
    assert decoder(tf.constant([[START, 5]]), tf.ones([1, 4, 16])).logits.shape == (1, 2, 23)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Decoder(**SIZES, attention=BahdanauAttention(3), output_state="next"),
            "output_state: expected one of",
        ),
        (
            lambda: ConditionalDecoder(**SIZES, attention=BahdanauAttention(3), output_state="previous"),
            "output_state: expected one of current",
        ),
        (lambda: DenseBridge(6, source="meen"), "source: .*Did you mean 'mean'"),
        (
            lambda: Seq2Seq(
                Encoder(vocabulary_size=19, embedding_size=4, units=3),
                Decoder(**SIZES, attention=BahdanauAttention(3), bridge=CopyBridge()),
            )((SOURCES, IDS)),
            "encoder: expected one that reads in one direction",
        ),
        (
            lambda: Seq2Seq(
                Encoder(19, 4, 6, direction="forward"),
                Decoder(**SIZES, attention=BahdanauAttention(3), bridge=CopyBridge(), num_layers=2),
            )((SOURCES, IDS)),
            "bridge: expected states of 2 layers, received 1",
        ),
        (
            lambda: Decoder(**SIZES, attention=BahdanauAttention(3), bridge=DenseBridge(5))(IDS, tf.ones([3, 7, 11])),
            r"bridge: expected states of widths \[6\], received \[5\]",
        ),
        (
            lambda: Seq2Seq(
                Encoder(19, 4, 6, direction="forward", cell="lstm"),
                Decoder(**SIZES, attention=BahdanauAttention(3), bridge=CopyBridge()),
            )((SOURCES, IDS)),
            r"bridge: expected states of widths \[6\], received \[6, 6\]",
        ),
        (
            lambda: Decoder(
                **SIZES, attention=BahdanauAttention(3), output_layer=MaxoutOutput(23, 5, tie_embeddings=True)
            )(IDS, tf.ones([3, 7, 11])),
            r"embeddings: expected a matrix of shape \(23, 5\)",
        ),
        (lambda: SelfAttentionEncoder(19, 4, 9, heads=3), "units: expected an even number"),
        (lambda: Decoder(**SIZES, attention=BahdanauAttention(3))(IDS[0], tf.ones([3, 7, 11])), "expected ndim=2"),
        (lambda: MultiHead(10, 4), r"units: .*heads \(4\).* 10"),
        (lambda: MultiHead(8, 0), r"units: .*heads \(0\).* 8"),
        (lambda: PredictiveLocalAttention(DotScore(), 2, units=0), "units: expected at least 1, received 0"),
        (
            lambda: Seq2Seq(Encoder(19, 4, 3), Decoder(**SIZES, attention=BahdanauAttention(3)), seed=2**31),
            r"seed: .*less than 2\^31",
        ),
    ],
)
def test_arguments_that_would_give_another_model_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GlobalAttention("dot"), r"score: expected .* ScoreFunction, such as DotScore\(\), received 'dot'\."),
        (lambda: Decoder(**SIZES, attention=DotScore()), "attention: .* Attention, such as"),
        (lambda: Decoder(**SIZES, attention=BahdanauAttention(3), bridge="copy"), "bridge: .* Bridge, such as"),
        (
            lambda: Decoder(**SIZES, attention=BahdanauAttention(3), output_layer=keras.layers.Dense(23)),
            "output_layer: .* OutputLayer, such as",
        ),
        (
            lambda: Seq2Seq(Decoder(**SIZES, attention=BahdanauAttention(3)), Encoder(19, 4, 3)),
            "encoder: .*BaseEncoder",
        ),
        (lambda: Seq2Seq(Encoder(19, 4, 3), keras.layers.Dense(23)), "decoder: .*BaseDecoder, such as"),
    ],
)
def test_an_inner_layer_of_another_kind_is_refused(make, message):
    with pytest.raises(TypeError, match=message):
        make()
