"""Micro-batching: concurrent requests run as one batch, and each gets its own answer. Tests use TF1 sessions."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial

import numpy as np
import pytest
import tensorflow as tf

from nmt_keras.config import MicroBatchingConfig
from nmt_keras.export.contract import Output
from nmt_keras.export.micro_batching import merge_requests
from serve.models.servable import load_servable
from serve.models.status import Code, StatusError

pytestmark = pytest.mark.long

TEXT = tf.TensorSpec([None], tf.string, name="text")
OUTPUTS = {
    "rows": Output("int32", "B", "texts in the batch"),
    "target_lengths": Output("int32", "B", "letters"),
    "letters": Output("int32", "BT", "mask of the letters, times the version"),
}


def save(folder, version, config):
    """Saves a model that counts the letters of each text and the texts of the batch. It is slow on long texts."""

    def answer(text):
        lengths = tf.strings.length(text)
        work = tf.while_loop(lambda i: i < 20 * tf.reduce_max(lengths), lambda i: [i + 1], [0])[0]
        return {
            "rows": tf.fill([tf.size(text)], tf.size(text)) + 0 * work,
            "target_lengths": lengths,
            "letters": version * tf.cast(tf.sequence_mask(lengths), tf.int32),
        }

    merging = merge_requests(answer, "serving_default", [TEXT], OUTPUTS, config)
    served = tf.function(lambda text: merging(tf.ensure_shape(text, [None])), input_signature=[TEXT], autograph=False)
    tf.saved_model.save(tf.Module(), str(folder), signatures={"serving_default": served})


@pytest.fixture
def load(tmp_path):
    """Loads a model with the given configuration into a session."""
    with ExitStack() as loaded:

        def load(**config):
            save(tmp_path / "model", 1, MicroBatchingConfig(**config))
            return loaded.enter_context(closing(load_servable(tmp_path / "model")))

        yield load


def ask(servable, texts):
    """Returns the reply to one request, or the error."""
    feed = {"text": np.array([text.encode() for text in texts], object)}
    try:
        return servable.run(servable.signatures["serving_default"], feed, seconds=60)
    except StatusError as error:
        return error


def at_once(*functions):
    """Calls several functions at the same time, each in its own thread, and returns their results."""
    ready = threading.Barrier(len(functions))

    def call(function):
        ready.wait()
        return function()

    with ThreadPoolExecutor(len(functions)) as threads:
        return list(threads.map(call, functions))


def ask_at_once(servable, requests):
    return at_once(*(partial(ask, servable, texts) for texts in requests))


def test_concurrent_requests_are_one_batch_and_get_their_own_rows_in_their_own_width(load):
    servable = load(max_batch_size=7, wait_ms=30_000.0, threads=1)  # an answer before that is one of a full batch
    replies = ask_at_once(servable, [["abc", "a"], ["ab"], ["", "ab", "abcde", "x"]])
    assert [reply["rows"].tolist() for reply in replies] == [[7] * 2, [7], [7] * 4]
    assert [reply["target_lengths"].tolist() for reply in replies] == [[3, 1], [2], [0, 2, 5, 1]]
    assert [reply["letters"].tolist() for reply in replies[:2]] == [[[1, 1, 1], [1, 0, 0]], [[1, 1]]]
    assert replies[2]["letters"].shape == (4, 5)


def test_without_a_waiting_time_a_request_does_not_wait_for_others(load):
    assert ask(load(max_batch_size=100), ["a"])["rows"].tolist() == [1]


def test_sources_and_targets_of_unequal_number_are_refused():
    inputs = [tf.TensorSpec([None], tf.string, name=name) for name in ("source", "target")]

    def answer(source, target):
        return {"length": tf.strings.length(source) + tf.strings.length(target)}

    outputs = {"length": Output("int32", "B", "letters of both")}
    both = merge_requests(answer, "both", inputs, outputs, MicroBatchingConfig(max_batch_size=2, wait_ms=1.0))
    function = tf.function(both, input_signature=inputs, autograph=False)
    assert function(tf.constant(["a"] * 5), tf.constant(["bc"] * 5))["length"].numpy().tolist() == [3] * 5
    for targets in (4, 6):
        with pytest.raises(tf.errors.InvalidArgumentError, match="source, target"):
            function(tf.constant(["a"] * 5), tf.constant(["bc"] * targets))


@pytest.mark.parametrize("rows", [1, 2])
def test_a_request_that_finds_the_queue_full_is_refused_as_unavailable(load, rows):
    servable = load(max_batch_size=1, threads=1, queue=1)
    refused = [reply for reply in ask_at_once(servable, [["x" * 5000] * rows] * 8) if isinstance(reply, StatusError)]
    assert {reply.code for reply in refused} == {Code.UNAVAILABLE}
    assert rows > 1 or len(refused) < 8  # some requests are answered
    assert ask(servable, ["a"])["rows"].tolist() == [1]


def test_two_versions_in_one_process_have_separate_queues(tmp_path):
    """TensorFlow's loader puts both versions into one resource manager. Both requests would fit into one batch."""
    functions = []
    for version in (1, 5):
        save(tmp_path / str(version), version, MicroBatchingConfig(max_batch_size=2, wait_ms=1000.0))
        loaded = tf.saved_model.load(str(tmp_path / str(version)))
        functions.append(lambda texts, loaded=loaded: loaded.signatures["serving_default"](text=tf.constant(texts)))
        functions[-1](["a", "b"])  # traces it
    found = at_once(*(partial(function, ["a"]) for function in functions))
    assert [np.array(reply["rows"]).tolist() for reply in found] == [[1], [1]]
    assert [int(reply["letters"][0, 0]) for reply in found] == [1, 5]
