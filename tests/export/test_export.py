"""What TensorFlow Serving must find in an export; a fresh process runs it as it does, by names of feeds and fetches."""

import collections
import os
import subprocess
import venv
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog
from tiny import TINY_MODEL, randomise

from nmt_keras.config import (
    AttentionConfig,
    DecoderConfig,
    EncoderConfig,
    ExportConfig,
    MicroBatchingConfig,
    ModelConfig,
    SearchConfig,
    TokenizerConfig,
)
from nmt_keras.export import BEAM_SIZE, CONTRACT, export, versions
from nmt_keras.export.fresh_process import ask
from nmt_keras.export.verification import FEEDS, REFUSED, STRANGE, checks, named, requests
from nmt_keras.export.warmup import LARGE, WARMUP
from nmt_keras.models.seq2seq import build_model
from nmt_keras.text import fit_tokenizer
from nmt_keras.translation.exported import ServedTranslator
from nmt_keras.translation.model_translator import ModelTranslator
from nmt_keras.translation.records import Decoded, NBest, Scored
from serve.models.servable import Servable
from serve.models.warmup import load_warm

pytestmark = pytest.mark.saved_model

ROOT = Path(__file__).parents[2]
COMPACT = ExportConfig(half_precision=True, micro_batching=MicroBatchingConfig(max_batch_size=4, wait_ms=20.0))
CONFIGS = {"word": ExportConfig(), "subword": ExportConfig(), "compact": COMPACT}
ANSWERED = sorted(FEEDS.keys() - set(REFUSED))


@pytest.fixture(scope="module")
def translators(translator, pairs):
    """A word translator, a subword translator, and the first with its weights rounded to half precision."""
    config = TokenizerConfig("subword", 367, max_tokens=61)
    source = fit_tokenizer(config, [pair.source for pair in pairs])
    target = fit_tokenizer(config, [pair.target for pair in pairs])
    sizes = ModelConfig(3, EncoderConfig(units=5), AttentionConfig(units=11), DecoderConfig(units=7, output_units=13))
    model = build_model(sizes, source.vocabulary_size, target.vocabulary_size)
    randomise(model, 5)
    rounded = build_model(
        TINY_MODEL, translator.source_tokenizer.vocabulary_size, translator.target_tokenizer.vocabulary_size
    )
    for variable, exact in zip(rounded.variables, translator.model.variables, strict=True):
        variable.assign(exact.numpy().astype(np.float16).astype(np.float32))
    return {
        "word": translator,
        "subword": ModelTranslator(source, target, model, SearchConfig(max_tokens=13)),
        "compact": ModelTranslator(
            translator.source_tokenizer, translator.target_tokenizer, rounded, translator.search
        ),
    }


@pytest.fixture(scope="module")
def folders(translators, tmp_path_factory):
    """Version 1 of each translator; the compact one is rounded by the export."""
    models = tmp_path_factory.mktemp("saved_models")
    exported = {**translators, "compact": translators["word"]}
    return {kind: export(exported[kind], models / kind, config=config) for kind, config in CONFIGS.items()}


@pytest.fixture(scope="module")
def expected(translators):
    """What each translator itself answers to the feeds that are lists of sentences, by signature and name."""
    found = {}
    for kind, translator in translators.items():
        beam = translator.with_search(replace(translator.search, beam_size=BEAM_SIZE))
        found[kind] = collections.defaultdict(list)
        for name in ANSWERED:
            for feed in FEEDS[name]:
                text = raw(feed)
                best = translator.decode(text)  # all translators search greedily
                for signature in ("serving_default", "align", "greedy"):
                    found[kind][signature, name].append(best)
                found[kind]["beam", name].append(beam.decode_nbest(text))
                found[kind]["score", name].append(translator.decode_scored(text, text))
    return found


@pytest.fixture(scope="module")
def answered(folders):
    """What a fresh process says of each export."""
    return dict(zip(folders, ask(list(folders.values()), requests()).models, strict=True))


@pytest.fixture(scope="module")
def replies(answered):
    """Its replies, by kind, signature and name of the feeds."""
    return {kind: named(model) for kind, model in answered.items()}


@pytest.fixture(params=list(CONFIGS))
def kind(request):
    return request.param


def encoded(sentences):
    """The bytes that a feed stands for."""
    return np.array([s.encode("utf-8", "surrogateescape") for s in sentences], object)


def raw(sentences):
    """The same as a tensor."""
    return tf.constant(encoded(sentences), tf.string)


def array(reply, output):
    """One output of a reply, with the shape it had."""
    found = reply["outputs"][output]
    return np.array(found["values"], dtype=object if not found["values"] else None).reshape(found["shape"])


def expect_equal(reply, decoded, tolerance=1e-4):
    """Compares a reply's outputs with the translator's own, in place."""
    for output in reply["outputs"]:
        values, expected = array(reply, output), getattr(decoded, output).numpy()
        assert values.shape == expected.shape, output
        if expected.dtype == object:
            expected = np.array([x.decode() for x in expected.ravel()], object).reshape(expected.shape)
        if expected.dtype == np.float32:
            np.testing.assert_allclose(values.astype(float), expected, rtol=0, atol=tolerance, err_msg=output)
        else:
            np.testing.assert_array_equal(values, expected, err_msg=output)


# What it replies


def test_the_contract_lists_what_translators_answer():
    fields = {name: set(signature.outputs) for name, signature in CONTRACT.items()}
    assert fields["align"] == set(Decoded._fields)
    assert fields["beam"] == set(NBest._fields)
    assert fields["score"] == set(Scored._fields)


@pytest.mark.parametrize("signature", CONTRACT)
@pytest.mark.parametrize("name", ANSWERED)
def test_a_fresh_process_without_keras_replies_what_the_translator_says(replies, expected, kind, signature, name):
    for reply, decoded in zip(replies[kind][signature, name], expected[kind][signature, name], strict=True):
        assert reply.get("error") is None
        assert set(reply["outputs"]) == set(CONTRACT[signature].outputs)
        expect_equal(reply, decoded)


@pytest.mark.parametrize("signature", CONTRACT)
@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_feed_of_wrong_rank_or_dtype_is_refused_and_the_process_lives(replies, kind, signature, name):
    (reply,) = replies[kind][signature, name]
    assert reply["error"] == "InvalidArgumentError"
    fault = "int64 is provided" if name == "integers" else "not compatible with expected shape [?]"
    assert fault in reply["message"]


def test_an_export_passes_every_check_of_a_verification(answered, kind):
    assert [check for check in checks(answered[kind]) if check.faults] == []


def test_only_what_max_tokens_cuts_is_called_truncated(replies, kind):
    for signature in ("serving_default", "align"):
        (reply,) = replies[kind][signature, "together"]
        assert array(reply, "truncated").tolist() == [False] * 5 + [True, False]


def test_a_word_of_10_000_letters_is_one_word_and_too_many_pieces(replies):
    for kind, truncated in (("word", False), ("subword", True)):
        (reply,) = replies[kind]["align", "one word of 10,000 letters"]
        assert array(reply, "truncated").tolist() == [truncated]


def test_a_sentence_cut_at_max_tokens_has_that_many_tokens_with_end(replies, translators, kind):
    (reply,) = replies[kind]["align", "together"]
    longest = STRANGE.index("palabra " * 1250)
    assert array(reply, "source_lengths")[longest] == translators[kind].source_tokenizer.config.max_tokens


def test_alignments_of_real_tokens_sum_to_one_over_the_sentence(replies, kind):
    (reply,) = replies[kind]["align", "together"]
    lengths = (array(reply, f"{side}_lengths") for side in ("source", "target"))
    for row, source, target in zip(array(reply, "alignment"), *lengths, strict=True):
        np.testing.assert_allclose(row[:target, :source].sum(axis=-1), 1.0, atol=1e-5)
        assert not row[:target, source:].any()


def test_the_beam_of_a_greedy_translator_has_its_greedy_translation_or_a_better_one(replies, kind):
    """At equal normalisation: a beam keeps more than the greedy path, and ranks by the same score."""
    (beam,), (greedy,) = (replies[kind][signature, "together"] for signature in ("beam", "greedy"))
    scores = array(beam, "scores").astype(float)
    assert scores.shape == (len(STRANGE), BEAM_SIZE)
    assert (np.diff(scores) <= 1e-5).all()
    for row, text in enumerate(array(greedy, "translation")):
        if text in array(beam, "translations")[row]:
            assert scores[row, 0] >= array(greedy, "score")[row] - 1e-4


def test_unequal_columns_to_be_scored_are_refused_in_words(folders):
    served = ServedTranslator(folders["word"])
    with pytest.raises(tf.errors.InvalidArgumentError, match="expected as many sentences of the one as of the other"):
        served.loaded.signatures["score"](source=tf.constant(["a", "b"]), target=tf.constant(["c"]))


def test_the_score_of_a_translation_is_its_log_probability(folders, translators, kind):
    """Through the reloaded export: what ``align`` says it found is what ``score`` says of it."""
    served, sentence = ServedTranslator(folders[kind]), STRANGE[0]
    (found,) = served.translate([sentence])
    (scored,) = served.score([sentence], [found.text])
    if scored.tokens == found.tokens:  # a text may be cut into other tokens than it was written in
        assert scored.log_prob == pytest.approx(found.log_prob, abs=1e-4)
    (again,) = translators[kind].score([sentence], [found.text])
    assert scored.log_prob == pytest.approx(again.log_prob, abs=1e-4)
    assert scored.tokens == again.tokens


def test_an_export_with_a_beam_of_its_own_serves_its_best_by_default(translators, tmp_path):
    beam = translators["word"].with_search(replace(translators["word"].search, beam_size=3))
    served, sentences = ServedTranslator(export(beam, tmp_path / "model")), ["Mi casa es roja.", "No."]
    lists = served.translate_nbest(sentences)
    assert [len(one) for one in lists] == [3, 3]
    default = served.loaded.signatures["serving_default"](text=tf.constant(sentences))["translation"].numpy()
    assert [text.decode() for text in default] == [one[0].text for one in lists]
    assert [one[0].text for one in lists] == [one.text for one in beam.translate(sentences)]
    assert [one.text for one in served.translate(sentences)] == [
        one.text for one in translators["word"].translate(sentences)
    ]


# What its graph holds


def meta_graph(folder):
    """The one meta graph of an export."""
    model = saved_model_pb2.SavedModel()
    model.ParseFromString((folder / "saved_model.pb").read_bytes())
    (found,) = model.meta_graphs
    return found


@pytest.mark.parametrize("kind", ["word", "subword"])
def test_the_variables_that_functions_read_are_those_that_are_restored(folders, kind):
    graph = meta_graph(folders[kind]).graph_def
    variables = {node.name for node in graph.node if node.op == "VarHandleOp"}
    restored = {
        name
        for node in graph.node
        if node.name == meta_graph(folders[kind]).saver_def.restore_op_name
        for name in node.input
    }
    read = {name for node in graph.node for name in node.input if "signature_wrapper" in node.attr["f"].func.name}
    assert variables & read == variables & restored == variables


def test_half_precision_takes_half_the_bytes(folders):
    def size(kind):
        return sum(path.stat().st_size for path in (folders[kind] / "variables").glob("variables.data-*"))

    weights = size("word")
    assert 0.5 < size("compact") / weights < 0.7  # the file also lists what it holds


def test_a_weight_too_large_for_half_precision_is_named(translators, tmp_path):
    model = build_model(TINY_MODEL, 200, 200)
    model.variables[0].assign(np.full(model.variables[0].shape, 7e4))
    word = translators["word"]
    large = ModelTranslator(word.source_tokenizer, word.target_tokenizer, model, word.search)
    with pytest.raises(ValueError, match=r"half_precision: expected weights of at most 65504, received 70000 in"):
        export(large, tmp_path / "model", config=ExportConfig(half_precision=True))
    assert versions(tmp_path / "model") == []


def test_exporting_in_half_precision_leaves_the_translator_as_it_was(translators, folders):
    exact, rounded = (translators[kind].model.variables for kind in ("word", "compact"))
    assert any((one.numpy() != other.numpy()).any() for one, other in zip(exact, rounded, strict=True))


def test_no_cudnn_operation_is_traced_where_a_gpu_is_visible(translators, monkeypatch):
    gpu = tf.config.PhysicalDevice("/physical_device:GPU:0", "GPU")
    logical = tf.config.LogicalDevice("/device:GPU:0", "GPU")
    cpus = tf.config.list_physical_devices("CPU")
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind=None: [gpu] if kind == "GPU" else [*cpus, gpu])
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind=None: [logical])
    word = translators["word"]
    anew = word.with_search(replace(word.search, max_tokens=11))  # a translator that has traced nothing yet
    graph = anew.decode.get_concrete_function().graph.as_graph_def()
    operations = {node.op for node in graph.node} | {n.op for f in graph.library.function for n in f.node_def}
    assert "MatMul" in operations or "BatchMatMulV2" in operations
    assert [op for op in operations if "cudnn" in op.lower()] == []


@pytest.mark.parametrize("device", ["/CPU:1", "/GPU:0"])
def test_an_export_that_is_placed_on_another_device_replies_the_same(folders, expected, device):
    """A second virtual processor stands for a GPU; where there is none, soft placement puts a GPU's nodes elsewhere."""
    config = tf.compat.v1.ConfigProto(allow_soft_placement=True, device_count={"CPU": 2})
    with tf.compat.v1.Session(graph=tf.Graph(), config=config) as session, session.graph.as_default():
        with tf.device(device):
            loaded = tf.compat.v1.saved_model.load(session, ["serve"], str(folders["compact"]))
        signature = loaded.signature_def["greedy"]
        fetches = {name: info.name for name, info in signature.outputs.items()}
        options, metadata = tf.compat.v1.RunOptions(output_partition_graphs=True), tf.compat.v1.RunMetadata()
        found = session.run(
            fetches,
            {signature.inputs["text"].name: encoded(STRANGE)},
            options=options,
            run_metadata=metadata,
        )
    nodes = [node for graph in metadata.partition_graphs for node in graph.node]
    placed = collections.Counter(node.device.split("/device:")[-1] for node in nodes)
    assert placed.most_common(1)[0][0] == {"/CPU:1": "CPU:1", "/GPU:0": "CPU:0"}[device]
    (best,) = expected["compact"]["greedy", "together"]
    assert found["translation"].tolist() == best.translation.numpy().tolist()
    np.testing.assert_allclose(found["score"], best.score, rtol=0, atol=1e-4)


def test_the_second_export_is_version_2_and_leaves_version_1_alone(translator, tmp_path):
    first = export(translator, tmp_path / "model")
    before = {path: path.stat().st_mtime_ns for path in first.rglob("*")}
    second = export(translator, tmp_path / "model")
    assert [first.name, second.name] == ["1", "2"]
    assert versions(tmp_path / "model") == [1, 2]
    assert {path: path.stat().st_mtime_ns for path in first.rglob("*")} == before


# How it is served


@pytest.fixture(scope="module")
def loading(folders):
    """The compact export in the embedded server's hands, and what was run while it was loaded: signatures, rows."""
    seen, run = [], Servable.run

    def note(self, signature, inputs, seconds, outputs=()):
        (name,) = (name for name, one in self.signatures.items() if one is signature)
        seen.append((name, *map(len, inputs.values())))
        return run(self, signature, inputs, seconds, outputs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Servable, "run", note)
        servable = load_warm(folders["compact"])
    yield servable, seen
    servable.close()


def test_the_embedded_server_answers_the_warm_up_requests_while_it_loads(loading):
    _, seen = loading
    sides = {name: len(signature.inputs) for name, signature in CONTRACT.items()}
    assert seen == [(name, *[rows] * sides[name]) for name in CONTRACT for rows in (1, LARGE)]


def test_warm_up_requests_name_the_model_and_are_of_one_to_many_tokens(folders, translators, kind):
    logs = [PredictionLog.FromString(record.numpy()) for record in tf.data.TFRecordDataset(str(folders[kind] / WARMUP))]
    assert {log.predict_log.request.model_spec.name for log in logs} == {kind}
    text = tf.make_ndarray(logs[1].predict_log.request.inputs["text"])
    lengths = translators[kind].source_tokenizer.encode(tf.constant(text)).lengths.numpy()
    assert len(text) == LARGE
    assert lengths[0] < LARGE // 2 <= lengths[-1]


def test_concurrent_requests_are_answered_as_if_each_had_come_alone(loading, translators):
    servable, _ = loading
    translator = translators["compact"]
    texts = [feed for feed in FEEDS["each by itself"] for _ in range(3)]
    alone = [translator.decode(raw(text)) for text in texts]
    beam = translator.with_search(replace(translator.search, beam_size=BEAM_SIZE))
    lists = [beam.decode_nbest(raw(text)) for text in texts]
    for name, records in (("align", alone), ("beam", lists)):
        signature = servable.signatures[name]
        with ThreadPoolExecutor(len(texts)) as threads:
            feeds = [{"text": encoded(text)} for text in texts]
            found = list(threads.map(lambda feed, chosen=signature: servable.run(chosen, feed, 120.0), feeds))
        for outputs, record in zip(found, records, strict=True):
            for output, values in outputs.items():
                wanted = getattr(record, output).numpy()
                assert values.shape == wanted.shape, output
                if wanted.dtype == np.float32:
                    np.testing.assert_allclose(values, wanted, rtol=0, atol=1e-4, err_msg=output)
                else:
                    np.testing.assert_array_equal(values, wanted, err_msg=output)


# The release that serves


@pytest.fixture(scope="module")
def python_of_serving():
    """An interpreter with TensorFlow 2.20.0, TensorFlow Serving's newest release, in a virtual environment of its own.

    The environment variable TF220_VENV names it; ``.venv-tf220`` is made where it is missing.
    """
    folder = Path(os.environ.get("TF220_VENV", ROOT / ".venv-tf220"))
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    wanted = ["tensorflow==2.20.0", "tensorflow-text==2.20.0"]
    subprocess.run([python, "-m", "pip", "install", "--quiet", *wanted], check=True)
    return python


@pytest.mark.tf220
def test_tensorflow_2_20_loads_the_export_and_replies_the_same(python_of_serving, folders, expected):
    answers = ask(list(folders.values()), requests(), python_of_serving)
    assert answers.libraries == {"tensorflow": "2.20.0", "tensorflow-text": "2.20.0"}
    for kind, model in zip(folders, answers.models, strict=True):
        assert [check for check in checks(model) if check.faults] == []
        for key, decoded in expected[kind].items():
            for reply, one in zip(named(model)[key], decoded, strict=True):
                expect_equal(reply, one)
