"""The contract of every public layer and model: each does what a Keras user expects."""

import doctest
import io

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensors import assert_same, normal
from tiny import randomise

import nmt_keras
from nmt_keras.layers import base
from nmt_keras.layers.attention import BahdanauAttention, FixedContext, GlobalAttention, NoAttention
from nmt_keras.layers.bridges import CopyBridge, DenseBridge, ZeroBridge
from nmt_keras.layers.cells import GRUCell, LayerNormGRUCell, LSTMCell, ResetAfterGRUCell, TanhCell
from nmt_keras.layers.internals import layers_of
from nmt_keras.layers.local_attention import MonotonicLocalAttention, PredictiveLocalAttention
from nmt_keras.layers.memory import Encoding, LayerStates
from nmt_keras.layers.output import AttentionalOutput, LinearOutput, MaxoutOutput, StateOutput
from nmt_keras.layers.scan import scan
from nmt_keras.layers.scores import AdditiveScore, DotScore, GeneralScore, LocationScore
from nmt_keras.layers.self_attention import MultiHead, SelfAttentionLayer
from nmt_keras.layers.stack import StackedCells
from nmt_keras.models.encoder import Encoder, SelfAttentionEncoder
from nmt_keras.models.recurrent_decoder import ConditionalDecoder, Decoder, InputFeedingDecoder, LuongDecoder
from nmt_keras.models.self_attention_decoder import SelfAttentionDecoder
from nmt_keras.models.seq2seq import Seq2Seq
from nmt_keras.names import CLASSES

B, T, S, U, D, E, V = 2, 3, 5, 8, 12, 6, 19
QUERY, VALUES, STATE = normal(B, T, U), normal(B, S, D), normal(B, U)
SAME = normal(B, S, U)
IDS, READ = tf.constant([[4, 5, 6, 3, 0], [7, 3, 0, 0, 0]]), tf.constant([[2, 5, 6], [2, 7, 0]])
ONE_WAY = Encoding(VALUES, tf.ones([B, S], tf.bool), tf.constant([S] * B), (LayerStates(backward=STATE),))
SCORED = (QUERY, VALUES)
STEP = (normal(B, D), [STATE])
OUTPUTS = (QUERY, normal(B, T, D), normal(B, T, E))


def decoder(kind, **arguments):
    return kind(V, E, U, **arguments)


CALLS = {
    "AdditiveScore": (lambda: AdditiveScore(7), SCORED),
    "DotScore": (DotScore, (QUERY, SAME)),
    "GeneralScore": (GeneralScore, SCORED),
    "LocationScore": (lambda: LocationScore(S), SCORED),
    "BahdanauAttention": (lambda: BahdanauAttention(7), SCORED),
    "GlobalAttention": (lambda: GlobalAttention(GeneralScore()), SCORED),
    "MonotonicLocalAttention": (lambda: MonotonicLocalAttention(AdditiveScore(7), 1), SCORED),
    "PredictiveLocalAttention": (lambda: PredictiveLocalAttention(GeneralScore(), 1, units=7), SCORED),
    "FixedContext": (lambda: FixedContext("mean"), SCORED),
    "FixedContext of a state": (lambda: FixedContext("backward"), (QUERY, ONE_WAY)),
    "NoAttention": (NoAttention, SCORED),
    "TanhCell": (lambda: TanhCell(U), STEP),
    "GRUCell": (lambda: GRUCell(U), STEP),
    "GRUCell with a context": (lambda: GRUCell(U), (*STEP, normal(B, 7))),
    "ResetAfterGRUCell": (lambda: ResetAfterGRUCell(U), STEP),
    "LayerNormGRUCell": (lambda: LayerNormGRUCell(U), STEP),
    "LSTMCell": (lambda: LSTMCell(U), (STEP[0], [STATE, normal(B, U, seed=9)])),
    "StackedCells": (lambda: StackedCells([GRUCell(U), LSTMCell(U)]), (STEP[0], [[STATE], [STATE, STATE]])),
    "ZeroBridge": (lambda: ZeroBridge(U, 2), (VALUES,)),
    "CopyBridge": (CopyBridge, (ONE_WAY,)),
    "DenseBridge": (lambda: DenseBridge(U, 2), (VALUES,)),
    "MaxoutOutput": (lambda: MaxoutOutput(V, 4), OUTPUTS),
    "LinearOutput": (lambda: LinearOutput(V), OUTPUTS),
    "StateOutput": (lambda: StateOutput(V), OUTPUTS[:1]),
    "AttentionalOutput": (lambda: AttentionalOutput(V, 4), OUTPUTS[:2]),
    "MultiHead": (lambda: MultiHead(U, 2), SCORED),
    "SelfAttentionLayer": (lambda: SelfAttentionLayer(U, 2), (QUERY,)),
    "SelfAttentionLayer of a decoder": (lambda: SelfAttentionLayer(U, 2), SCORED),
    "Encoder": (lambda: Encoder(V, E, U, num_layers=2, word_projection=True), (IDS,)),
    "Encoder of one direction": (lambda: Encoder(V, E, U, direction="forward", cell="lstm"), (IDS,)),
    "Encoder that is made frozen": (lambda: Encoder(V, E, U, trainable=False), (IDS,)),
    "SelfAttentionEncoder": (lambda: SelfAttentionEncoder(V, E, U, heads=2), (IDS,)),
    "Decoder": (lambda: decoder(Decoder, attention=BahdanauAttention(7)), (READ, VALUES)),
    "ConditionalDecoder": (lambda: decoder(ConditionalDecoder, attention=BahdanauAttention(7)), (READ, VALUES)),
    "LuongDecoder": (lambda: decoder(LuongDecoder, attention=GlobalAttention(GeneralScore())), (READ, VALUES)),
    "InputFeedingDecoder": (lambda: decoder(InputFeedingDecoder, attention=BahdanauAttention(7)), (READ, VALUES)),
    "SelfAttentionDecoder": (lambda: decoder(SelfAttentionDecoder, heads=2), (READ, VALUES)),
    "Seq2Seq": (
        lambda: Seq2Seq(Encoder(V, E, U), decoder(Decoder, attention=BahdanauAttention(7))),
        ((IDS, READ),),
    ),
}


@pytest.fixture(params=CALLS)
def call(request):
    """A new layer of each kind, its inputs, and its name."""
    make, inputs = CALLS[request.param]
    return make(), inputs, request.param


def shapes(nest):
    return tf.nest.map_structure(lambda x: None if x is None else tuple(x.shape), nest)


def each(shape):
    """Returns the shapes in a nest of shapes."""
    if shape is not None and all(size is None or isinstance(size, int) for size in shape):
        return [tuple(shape)]
    return [found for part in shape for found in each(part)]


def floats(nest, dtype):
    """Returns a nest with its floats in another dtype."""
    return tf.nest.map_structure(lambda x: tf.cast(x, dtype) if x is not None and x.dtype.is_floating else x, nest)


def test_it_can_be_called_copied_and_asked_for_its_shapes_but_not_quantised(call):
    layer, inputs, name = call
    found = layer(*inputs)
    randomise(layer, 1)
    found = layer(*inputs)
    copy = type(layer).from_config(layer.get_config())
    assert copy.get_config() == layer.get_config()
    assert {*base.arguments(type(layer))} <= {*layer.get_config()}
    copy(*inputs)
    copy.set_weights(layer.get_weights())
    assert_same(copy(*inputs), found, atol=0.0)
    assert_same(tf.function(lambda: layer(*inputs), autograph=False)(), found, atol=1e-5)
    if "coder" not in name and name != "Seq2Seq":  # these read ids
        assert each(layer.compute_output_shape(*shapes(inputs))) == [tuple(x.shape) for x in tf.nest.flatten(found)]
    with pytest.raises(NotImplementedError, match=f"mode: expected no quantisation of {type(layer).__name__}"):
        layer.quantize("int8")


POLICIES = {"float64": "float64", "mixed_float16": "float16"}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", CALLS)
def test_it_converts_its_inputs_and_computes_in_its_own_dtype(name, policy, dtype_policy):
    make, inputs = CALLS[name]
    dtype_policy(policy)
    layer = make()
    layer(*inputs)
    dtype_policy("float32")
    for dtype in ("float64", "float32", "float16"):
        results = [x.dtype for x in tf.nest.flatten(layer(*floats(inputs, dtype))) if x is not None]
        assert {x for x in results if x.is_floating} == {tf.as_dtype(POLICIES[policy])}
    randomise(layer, 1)
    exact = make()
    exact(*inputs)
    exact.set_weights(layer.get_weights())
    tolerance = {"float64": 1e-4, "mixed_float16": 0.05}[policy]
    assert_same(floats(layer(*inputs), "float32"), exact(*inputs), atol=tolerance, rtol=tolerance)


class Scaled(DotScore):
    def __init__(self, scale=1.0, **kwargs):
        super().__init__(**kwargs)
        self.factor = scale


class Configured(Scaled):
    def get_config(self):
        return {**super().get_config(), "scale": self.factor}


@keras.saving.register_keras_serializable("test")
class Noisy(Encoder):
    def __init__(self, *sizes, noise=0.1, **kwargs):
        super().__init__(*sizes, **kwargs)
        self.noise = noise


class Hot(BahdanauAttention):
    def __init__(self, temperature=1.0, **kwargs):
        super().__init__(**kwargs)
        self.heat = temperature

    def get_config(self):
        return {**super().get_config(), "temperature": self.heat}


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of Keras, as it saves
def test_a_subclass_that_passes_keywords_on_keeps_the_arguments_of_the_layer_it_extends(tmp_path):
    encoder = Noisy(9, 6, 5, dropout=0.3, kernel_initializer="zeros", noise=0.2)
    ids = keras.Input([None], dtype="int32")
    keras.Model(ids, encoder(ids).values).save(tmp_path / "m.keras")
    loaded = keras.saving.load_model(tmp_path / "m.keras").get_layer(encoder.name)
    assert (loaded.dropout, loaded.noise, loaded.units) == (0.3, 0.2, 5)
    assert isinstance(loaded.kernel_initializer, keras.initializers.Zeros)
    attention = Hot.from_config(Hot(2.0, units=7).get_config())
    assert (attention.heat, attention.units) == (2.0, 7)


def test_a_summary_draws_no_random_numbers():
    keras.utils.set_random_seed(1)
    wanted = keras.random.uniform([]).numpy()
    model = nmt_keras.Seq2Seq(Encoder(9, 6, 5), Decoder(9, 6, 5, attention=BahdanauAttention(5)))
    model((np.ones([1, 3], np.int32), np.ones([1, 2], np.int32)))
    keras.utils.set_random_seed(1)
    model.summary(print_fn=lambda *_, **__: None)
    assert keras.random.uniform([]).numpy() == wanted


def test_a_layer_of_one_s_own_keeps_its_arguments_as_attributes_or_overrides_get_config():
    assert Configured.from_config(Configured(2.0).get_config()).factor == 2.0
    with pytest.raises(ValueError, match="none for scale"):
        Scaled(2.0).get_config()


# Saving


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of Keras, as it saves
def test_a_functional_model_with_it_is_saved_and_loaded_with_what_is_frozen(call, tmp_path):
    layer, inputs, _ = call
    layer(*inputs)
    randomise(layer, 1)
    frozen = [inner for inner in layers_of(layer) if inner is not layer and inner.trainable_variables != []][:1]
    for inner in frozen:
        inner.trainable = False
    if not frozen:
        layer.trainable = False
    ids = tf.nest.map_structure(lambda x: None if x is None else keras.Input(x.shape[1:], x.shape[0], x.dtype), inputs)
    model = keras.Model([x for x in tf.nest.flatten(ids) if x is not None], layer(*ids))
    model.save(tmp_path / "m.keras")
    copy = keras.saving.load_model(tmp_path / "m.keras").get_layer(layer.name)
    assert_same(copy(*inputs), layer(*inputs), atol=1e-6)
    assert [v.path for v in copy.trainable_variables] == [v.path for v in layer.trainable_variables]
    assert len(keras.models.clone_model(model).trainable_variables) == len(model.trainable_variables)


@pytest.mark.parametrize(
    "make",
    [TanhCell, GRUCell, ResetAfterGRUCell, LayerNormGRUCell, LSTMCell],
)
def test_keras_runs_a_cell_or_a_stack_as_our_scan_does(make):
    x, cell = normal(B, T, D), make(U)
    rnn = keras.layers.RNN(cell, return_sequences=True, return_state=True)
    rnn(x)
    randomise(rnn, 1)
    outputs, *last = rnn(x)

    def advance(projected, state):
        state = cell.advance(projected, state)
        return state, cell.output_of(state)

    state, wanted = scan(advance, cell.project(x), cell.zero_state(B))
    assert_same((outputs, last), (wanted, [part[:, 0] for part in tf.nest.flatten(state)]))
    stack = keras.layers.RNN(StackedCells([cell, make(7)]), return_sequences=True)
    assert stack(x).shape == (B, T, 7)


def test_padding_of_annotations_is_masked_for_all_layers_after_an_encoder():
    short, encoder = tf.constant([[5, 6, 7, 3]]), Encoder(V, E, U)
    padded = tf.pad(short, [[0, 0], [0, 6]])
    _, alpha = BahdanauAttention(7)(normal(1, 1, U), encoder(padded).values)
    assert not np.any(alpha[..., 4:])
    pool = keras.layers.GlobalAveragePooling1D()
    np.testing.assert_allclose(pool(encoder(padded).values), pool(encoder(short).values), atol=1e-6)
    seen = encoder(padded, tf.sequence_mask([2], 10)).values
    np.testing.assert_allclose(pool(seen), tf.reduce_mean(seen[:, :2], axis=1), atol=1e-6)


@pytest.mark.parametrize(
    "read",
    [
        lambda x: SelfAttentionLayer(U, 2)(x),
        lambda x: SelfAttentionLayer(U, 2)(SelfAttentionLayer(U, 2)(x, x)),
        lambda x: MultiHead(U, 2)(x, x)[0],
        lambda x: BahdanauAttention(7)(x, x)[0],
        lambda x: StateOutput(V)(x),
        lambda x: DenseBridge(U)(x)[0],
    ],
)
def test_a_layer_reads_and_passes_on_the_mask_that_keras_attaches(read):
    embedding, pool = keras.layers.Embedding(V, U, mask_zero=True), keras.layers.GlobalAveragePooling1D()

    def pooled(ids):
        keras.utils.set_random_seed(1)
        found = read(embedding(ids))
        return pool(found) if len(found.shape) == 3 else found

    np.testing.assert_allclose(pooled(IDS)[1:], pooled(IDS[1:, :2]), atol=1e-6)


def test_a_decoder_reads_any_annotations_and_their_mask():
    reads, mask = decoder(Decoder, attention=BahdanauAttention(7)), tf.sequence_mask([4, 2], S)
    found = reads(READ, VALUES, mask)
    assert not np.any(found.alignment[1, :, 2:])
    np.testing.assert_allclose(found.logits[1:], reads(READ[1:], VALUES[1:, :2]).logits, atol=1e-6)
    for given in (mask[::-1], mask[::-1].numpy().tolist()):  # for 4 tokens
        assert not np.any(BahdanauAttention(7)(QUERY, Encoder(V, E, U)(IDS), values_mask=given)[1][0, :, 2:])


def test_an_initializer_of_one_s_own_is_used_and_kept():
    given = {"kernel_initializer": "ones", "bias_initializer": keras.initializers.Constant(0.5)}
    encoder = Encoder(V, E, U, recurrent_initializer=keras.initializers.Orthogonal(gain=3.0), **given)
    for one in (encoder, Encoder.from_config(encoder.get_config())):
        one.build()
        (cell,) = one.forward_cells
        np.testing.assert_array_equal(cell.kernel, np.ones([E, 3 * U]))
        np.testing.assert_array_equal(cell.bias, np.full(3 * U, 0.5))
        np.testing.assert_allclose(cell.recurrent @ tf.transpose(cell.recurrent), 9.0 * np.eye(U), atol=1e-4)


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_the_example_of_a_public_class_gives_what_it_says(name):
    kind, names = getattr(nmt_keras, name), {each: getattr(nmt_keras, each) for each in CLASSES}
    test = doctest.DocTestFinder(recurse=False).find(kind, name, globs={**names, "keras": keras, "np": np, "tf": tf})
    assert test[0].examples
    said = io.StringIO()
    assert not doctest.DocTestRunner(verbose=False).run(test[0], out=said.write).failed, said.getvalue()
