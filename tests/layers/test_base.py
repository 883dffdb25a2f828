"""Contracts of all layers: configurations survive a round trip, and weights are read before a loop."""

import dataclasses

import keras
import pytest
import tensorflow as tf
from combinations import COMBINATIONS

from nmt_keras.config import TrainConfig
from nmt_keras.layers.attention import BahdanauAttention
from nmt_keras.layers.base import BaseLayer
from nmt_keras.layers.bridges import ZeroBridge
from nmt_keras.layers.matmul import bfloat16_weights
from nmt_keras.models.seq2seq import Seq2Seq
from nmt_keras.search import greedy
from nmt_keras.training.updater import Updater

SOURCE = tf.constant([[4, 5, 6, 3], [7, 3, 0, 0]])
TARGET = tf.constant([[8, 9, 3], [10, 3, 0]])


def build(name):
    model = Seq2Seq(dataclasses.replace(COMBINATIONS[name], dropout=0.2), 19, 23)
    model.build()
    return model


def layers_of(layer):
    """Returns a layer and all layers inside it."""
    found = [layer]
    for value in vars(layer).values():
        inner = value if isinstance(value, list) else [value]
        found += [each for one in inner if isinstance(one, BaseLayer) for each in layers_of(one)]
    return found


def test_every_layer_comes_back_from_its_configuration():
    layers = {BahdanauAttention: BahdanauAttention(5, 7, 11), ZeroBridge: ZeroBridge(name="bridge")}
    names = ["rnnsearch-deep", "rnnsearch-linear", "rnnsearch-local-p", "rnnencdec", "luong-base", "luong-location"]
    for name in [*names, "conditional-deep", "luong-feed", "luong-local-m", "lecture", "self-attention"]:
        model = build(name)
        layers.update({type(each): each for side in (model.encoder, model.decoder) for each in layers_of(side)})
    registered = keras.saving.get_custom_objects().values()
    assert layers.keys() == {kind for kind in registered if issubclass(kind, BaseLayer)}
    for kind, layer in layers.items():
        copy = kind.from_config(layer.get_config())
        copy.build()
        assert copy.get_config() == layer.get_config()
        assert [v.shape for v in copy.variables] == [v.shape for v in layer.variables]


def test_a_configuration_holds_the_arguments_of_base_classes():
    decoder, tied = build("rnnsearch-deep").decoder, build("rnnsearch-local-p").decoder.output_layer
    copy = type(decoder).from_config(decoder.get_config())
    assert (copy.dropout_rate, copy.recurrent_dropout_rate, copy.output_state) == (0.2, 0.3, "current")
    copy = type(tied).from_config(tied.get_config())
    assert (copy.tie_embeddings, copy.vocabulary_size, copy.units) == (True, 23, 5)


def operations_in_loops(function):
    """Returns the types of all operations in the bodies of a graph's loops and in the functions called there."""
    definition = function.graph.as_graph_def()
    functions = {each.signature.name: each.node_def for each in definition.library.function}

    def within(nodes):
        called = (value.func.name for node in nodes for value in node.attr.values() if value.HasField("func"))
        return [*nodes, *(each for name in called for each in within(functions[name]))]

    loops = [node for node in within(definition.node) if node.op in ("While", "StatelessWhile")]
    return {each.op for loop in loops for each in within(functions[loop.attr["body"].func.name])}


@pytest.mark.parametrize(
    ("name", "precision", "sampling"),
    [
        ("rnnsearch-deep", "bfloat16-products", None),
        ("conditional", "float32", None),
        ("luong-feed", "float32", None),
        ("lecture", "float32", None),
        ("luong-local-p", "float32", 0.5),
        ("self-attention", "bfloat16-products", 0.5),
    ],
)
def test_no_loop_of_training_reads_a_variable(name, precision, sampling):
    updater = Updater(build(name), TrainConfig(xla=True, precision=precision))
    probability = None if sampling is None else tf.constant(sampling)
    arguments = (SOURCE, TARGET, None), tf.constant(0), probability, tf.constant(1.0)
    found = operations_in_loops(updater.differentiate.get_concrete_function(*arguments))
    assert found & {"MatMul", "BatchMatMulV3"}
    assert "ReadVariableOp" not in found


@pytest.mark.parametrize(
    "name", ["rnnsearch-deep", "conditional", "luong-local-p", "luong-location", "luong-feed", "self-attention"]
)
def test_no_loop_of_a_search_reads_a_variable(name):
    model = build(name)

    @tf.function(autograph=False)
    def search():
        memory, step = model.remember(SOURCE), model.step_function(bfloat16_weights)
        return greedy(step, model.initial_state(memory), memory, tf.constant([3, 3]))

    found = operations_in_loops(search.get_concrete_function())
    assert "MatMul" in found
    assert "ReadVariableOp" not in found
