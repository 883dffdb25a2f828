"""Requests that come at the same time go through the graph together, and nobody can tell; run in a TF1 session."""

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
import tensorflow as tf

from nmt_keras.config import MicroBatchingConfig
from nmt_keras.export.contract import Output
from nmt_keras.export.micro_batching import cut_to_width, merge_requests
from serve.models.servable import load_servable
from serve.models.status import Code, StatusError

TEXT = tf.TensorSpec([None], tf.string, name="text")
OUTPUTS = {
    "rows": Output("int32", "B", "how many texts were searched together"),
    "target_lengths": Output("int32", "B", "letters"),
    "letters": Output("int32", "BT", "which of them are there"),
    "shown": Output("string", "BT", "the same in writing"),
}
PATIENT = 30_000.0
"""Milliseconds: a request that is answered sooner was part of a full batch."""


def model(version, config, queue="serving_default"):
    """Tells of each text its letters, ``version`` for each, and how many texts came with it; long ones take long."""

    def answer(text):
        lengths = tf.strings.length(text)
        work = tf.while_loop(lambda i: i < 20 * tf.reduce_max(lengths), lambda i: [i + 1], [0])[0]
        return {
            "rows": tf.fill([tf.size(text)], tf.size(text)) + 0 * work,
            "target_lengths": lengths,
            "letters": version * tf.cast(tf.sequence_mask(lengths), tf.int32),
            "shown": tf.where(tf.sequence_mask(lengths), "x", ""),
        }

    merging = merge_requests(answer, queue, [TEXT], OUTPUTS, config)
    return tf.function(lambda text: merging(tf.ensure_shape(text, [None])), input_signature=[TEXT], autograph=False)


def save(folder, version, config):
    """Saves a model and, as the signature ``other``, the next version of it."""
    signatures = {"serving_default": model(version, config), "other": model(version + 1, config, "other")}
    tf.saved_model.save(tf.Module(), str(folder), signatures=signatures)


@pytest.fixture
def session(tmp_path):
    """Loads a model with the configuration that it is called with into a session of its own."""
    loaded = []

    def load(version=1, **config):
        folder = tmp_path / str(len(loaded))
        save(folder, version, MicroBatchingConfig(**config))
        loaded.append(load_servable(folder))
        return loaded[-1]

    yield load
    for servable in loaded:
        servable.close()


def ask(servable, texts, name="serving_default"):
    """The reply to one request; or the error."""
    try:
        signature = servable.signatures[name]
        return servable.run(signature, {"text": np.array([text.encode() for text in texts], object)}, seconds=60)
    except StatusError as error:
        return error


def at_once(*asking):
    """What several functions answer, called by as many threads that wait for one another."""
    ready = threading.Barrier(len(asking))

    def call(function):
        ready.wait()
        return function()

    with ThreadPoolExecutor(len(asking)) as threads:
        return list(threads.map(call, asking))


def ask_at_once(servable, requests):
    """The replies to several requests."""
    return at_once(*(partial(ask, servable, texts) for texts in requests))


def test_requests_that_come_together_are_one_batch(session):
    servable = session(max_batch_size=4, wait_ms=PATIENT, threads=1)
    replies = ask_at_once(servable, [["a"], ["ab"], ["abc"], ["abcd"]])
    assert [reply["rows"].tolist() for reply in replies] == [[4]] * 4


def test_each_gets_its_own_rows_in_its_own_width(session):
    servable = session(max_batch_size=7, wait_ms=PATIENT, threads=1)
    replies = ask_at_once(servable, [["abc", "a"], ["ab"], ["", "ab", "abcde", "x"]])
    assert [reply["target_lengths"].tolist() for reply in replies] == [[3, 1], [2], [0, 2, 5, 1]]
    assert replies[0]["letters"].tolist() == [[1, 1, 1], [1, 0, 0]]
    assert replies[1]["letters"].tolist() == [[1, 1]]
    assert replies[2]["letters"].shape == (4, 5)


def test_nobody_waits_for_a_batch_to_fill_if_it_waits_no_time(session):
    servable = session(max_batch_size=100)
    assert ask(servable, ["a"])["rows"].tolist() == [1]


def test_a_request_of_more_than_a_batch_waits_in_parts_and_comes_back_whole(session):
    servable = session(max_batch_size=3, wait_ms=10.0)
    reply = ask(servable, ["a", "ab", "abc", "abcde", "", "a", "ab"])
    assert reply["rows"].tolist() == [3, 3, 3, 3, 3, 3, 1]
    assert reply["target_lengths"].tolist() == [1, 2, 3, 5, 0, 1, 2]
    assert reply["letters"].tolist() == [[1] * n + [0] * (5 - n) for n in (1, 2, 3, 5, 0, 1, 2)]
    assert reply["shown"].tolist() == [[b"x"] * n + [b""] * (5 - n) for n in (1, 2, 3, 5, 0, 1, 2)]


def test_no_request_passes_the_queue_by_being_large(session):
    servable = session(max_batch_size=1, threads=1, queue=1)
    replies = ask_at_once(servable, [["x" * 5000] * 2] * 8)
    refused = [reply for reply in replies if isinstance(reply, StatusError)]
    assert {reply.code for reply in refused} == {Code.UNAVAILABLE}


def test_columns_of_unequal_length_are_refused_before_they_are_cut():
    inputs = [tf.TensorSpec([None], tf.string, name=name) for name in ("source", "target")]
    outputs = {"length": Output("int32", "B", "letters of both")}

    def answer(source, target):
        return {"length": tf.strings.length(source) + tf.strings.length(target)}

    both = merge_requests(answer, "both", inputs, outputs, MicroBatchingConfig(max_batch_size=2, wait_ms=1.0))
    asked = tf.function(both, input_signature=inputs, autograph=False)
    assert asked(tf.constant(["a"] * 5), tf.constant(["bc"] * 5))["length"].numpy().tolist() == [3] * 5
    for targets in (4, 6):
        with pytest.raises(tf.errors.InvalidArgumentError, match="expected as many sentences of the one"):
            asked(tf.constant(["a"] * 5), tf.constant(["bc"] * targets))


def test_a_request_of_no_text_is_answered_empty(session):
    reply = ask(session(max_batch_size=3, wait_ms=PATIENT), [])
    assert {name: len(values) for name, values in reply.items()} == dict.fromkeys(OUTPUTS, 0)


def test_who_finds_the_queue_full_is_refused_as_unavailable_and_the_others_are_answered(session):
    servable = session(max_batch_size=1, threads=1, queue=1)
    replies = ask_at_once(servable, [["x" * 5000]] * 8)
    refused = [reply for reply in replies if isinstance(reply, StatusError)]
    assert {reply.code for reply in refused} == {Code.UNAVAILABLE}
    assert "queue" in refused[0].message
    assert 1 <= len(replies) - len(refused) < 8
    assert ask(servable, ["a"])["rows"].tolist() == [1]  # and it goes on


def test_two_signatures_do_not_answer_for_each_other(session):
    servable = session(max_batch_size=2, wait_ms=1000.0)
    names = ("serving_default", "other")
    for name in names:
        ask(servable, ["a", "b"], name)  # the first request of a signature takes longer than others wait
    found = at_once(*(partial(ask, servable, ["a"], name) for name in names))
    assert [reply["rows"].tolist() for reply in found] == [[1], [1]]
    assert [reply["letters"].tolist() for reply in found] == [[[1]], [[2]]]


def test_two_versions_in_one_process_do_not_answer_for_each_other(tmp_path):
    """TensorFlow's own loader puts both into one resource manager."""
    for version in (1, 5):
        save(tmp_path / str(version), version, MicroBatchingConfig(max_batch_size=2, wait_ms=1000.0))
    loaded = [tf.saved_model.load(str(tmp_path / str(version))).signatures["serving_default"] for version in (1, 5)]
    for function in loaded:
        function(text=tf.constant(["a", "b"]))
    found = at_once(*(partial(function, text=tf.constant(["a"])) for function in loaded))
    assert [reply["rows"].numpy().tolist() for reply in found] == [[1], [1]]
    assert [reply["letters"].numpy().tolist() for reply in found] == [[[1]], [[5]]]


def test_axes_are_cut_where_a_length_says_so():
    outputs = {
        "source_lengths": Output("int32", "B", ""),
        "lengths": Output("int32", "BK", ""),
        "alignment": Output("float32", "BKTS", ""),
    }
    found = {
        "source_lengths": tf.constant([3, 2]),
        "lengths": tf.constant([[1, 5], [4, 0]]),
        "alignment": tf.zeros([2, 2, 7, 11]),
    }
    assert cut_to_width(found, outputs)["alignment"].shape == (2, 2, 5, 3)
