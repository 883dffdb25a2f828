"""What TensorFlow Serving must find in an export; a fresh process runs it as it does, by names of feeds and fetches."""

import json
import os
import re
import subprocess
import sys
import venv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from nmt_keras.config import (
    AttentionConfig,
    DecoderConfig,
    EncoderConfig,
    ModelConfig,
    SearchConfig,
    TextConfig,
)
from nmt_keras.export import BEAM_SIZE, export, read_manifest, versions
from nmt_keras.model import build_model
from nmt_keras.text import fit_text
from nmt_keras.translator import Decoded, ModelTranslator, NBest, Scored, ServedTranslator

pytestmark = pytest.mark.saved_model

# Runs a script with Keras and the project out of its reach, and out of TensorFlow's: importing them raises ImportError.
WITHOUT_KERAS = (
    "import runpy, sys; sys.modules.update(keras=None, tf_keras=None, nmt_keras=None, serve=None); "
    "runpy.run_path(sys.argv[1], run_name='__main__')"
)
RUNNER = Path(__file__).with_name("run_saved_model.py")
ROOT = RUNNER.parents[1]

BRIEF = {"translation", "score", "truncated"}
ALIGN = set(Decoded._fields)
OUTPUTS = {
    "serving_default": BRIEF,
    "align": ALIGN,
    "greedy": BRIEF,
    "beam": set(NBest._fields),
    "score": set(Scored._fields),
}
"""The outputs of each signature."""

# Kernels of tensorflow_text that every TensorFlow Serving since 2.12 links.
TEXT_OPERATIONS = {
    "NormalizeUTF8",
    "CaseFoldUTF8",
    "RegexSplitWithOffsets",
    "SentencepieceOp",
    "SentencepieceTokenizeOp",
}
# Operations of TensorFlow that a server lacks: other devices' kernels, other compilers', and calls into Python.
NOT_SERVED = re.compile("cudnn|xla|tpu|nccl|collective|mkl|pyfunc|pyfunction|tensorrt|trt", re.IGNORECASE)

MIXED = ["¿Dónde está mi hermana?", "", "   ", "No.", "😀 👨‍👩‍👧 🇪🇸", "palabra " * 1250, "\udcff\udcc3(\udce2\udc82"]
FEEDS = {
    "alone": [MIXED[0]],
    "mixed": MIXED,
    "none": [],
    "one word of 10,000 letters": ["a" * 10_000],
    "a scalar": "hola",
    "rows of rows": [["hola", "adiós"]],
    "integers": [1, 2],
}
"""Texts to feed by name; \\udc80 to \\udcff are raw bytes, so the last of MIXED is no UTF-8."""


REFUSED = {"a scalar", "rows of rows", "integers"}


def run_fresh(python, folders):
    """What ``run_saved_model.py`` says under an interpreter; its replies by folder, signature and name of the feed."""
    named = [(signature, name) for signature in OUTPUTS for name in FEEDS]
    requests = [
        {"signature": signature, "text": FEEDS[name], "dtype": "int64" if name == "integers" else "string"}
        for signature, name in named
    ]
    jobs = json.dumps([{"folder": str(folder), "requests": requests} for folder in folders.values()])
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1"}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        [python, "-c", WITHOUT_KERAS, RUNNER],
        input=jobs,
        capture_output=True,
        text=True,
        env=environment,
        cwd="/",
        check=False,
    )
    assert done.returncode == 0, f"{RUNNER.name} ended with {done.returncode}: {done.stderr[-3000:]}"
    found = json.loads(done.stdout)
    replies = {kind: dict(zip(named, each, strict=True)) for kind, each in zip(folders, found["replies"], strict=True)}
    return found["libraries"], replies


@pytest.fixture(scope="module")
def translators(translator, pairs):
    """A word translator and a subword translator, both with random weights."""
    config = TextConfig("subword", 367, max_tokens=61)
    source = fit_text(config, [pair.source for pair in pairs])
    target = fit_text(config, [pair.target for pair in pairs])
    sizes = ModelConfig(3, EncoderConfig(units=5), AttentionConfig(units=11), DecoderConfig(units=7, readout_units=13))
    model = build_model(sizes, source.vocabulary_size, target.vocabulary_size)
    random = np.random.default_rng(5)
    for variable in model.trainable_variables:
        variable.assign(random.normal(0.0, 0.5, variable.shape))
    return {"word": translator, "subword": ModelTranslator(source, target, model, SearchConfig(max_tokens=13))}


@pytest.fixture(scope="module")
def folders(translators, tmp_path_factory):
    """Version 1 of each translator."""
    models = tmp_path_factory.mktemp("saved_models")
    return {kind: export(translator, models / kind) for kind, translator in translators.items()}


@pytest.fixture(scope="module")
def expected(translators):
    """What each translator itself answers to the feeds that are lists of sentences, by signature and name."""
    found = {}
    for kind, translator in translators.items():
        beam = translator.with_search(replace(translator.search, beam_size=BEAM_SIZE))
        found[kind] = {}
        for name in FEEDS.keys() - REFUSED:
            text = raw(FEEDS[name])
            best = translator.decode(text)  # both translators search greedily
            found[kind] |= {(signature, name): best for signature in ("serving_default", "align", "greedy")}
            found[kind]["beam", name] = beam.decode_nbest(text)
            found[kind]["score", name] = translator.decode_forced(text, text)
    return found


@pytest.fixture(scope="module")
def replies(folders):
    """The replies of a fresh process, by kind, signature and name of the feed."""
    return run_fresh(sys.executable, folders)[1]


@pytest.fixture(params=["word", "subword"])
def kind(request):
    return request.param


def raw(sentences):
    """The bytes that a feed stands for."""
    return tf.constant([s.encode("utf-8", "surrogateescape") for s in sentences], tf.string)


def array(reply, output):
    """One output of a reply, with the shape it had."""
    found = reply["outputs"][output]
    return np.array(found["values"], dtype=object if not found["values"] else None).reshape(found["shape"])


def expect_equal(reply, decoded, tolerance=1e-5):
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


@pytest.mark.parametrize("signature", OUTPUTS)
@pytest.mark.parametrize("name", ["alone", "mixed", "none", "one word of 10,000 letters"])
def test_a_fresh_process_without_keras_replies_what_the_translator_says(replies, expected, kind, signature, name):
    reply = replies[kind][signature, name]
    assert reply.get("error") is None
    assert set(reply["outputs"]) == OUTPUTS[signature]
    expect_equal(reply, expected[kind][signature, name])


@pytest.mark.parametrize("signature", OUTPUTS)
@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_feed_of_wrong_rank_or_dtype_is_refused_and_the_process_lives(replies, kind, signature, name):
    reply = replies[kind][signature, name]
    assert reply["error"] == "InvalidArgumentError"
    fault = "int64 is provided" if name == "integers" else "not compatible with expected shape [?]"
    assert fault in reply["message"]


def test_an_empty_batch_is_answered_empty(replies, kind):
    for signature in OUTPUTS:
        for output in replies[kind][signature, "none"]["outputs"].values():
            assert output["shape"][0] == 0


def test_only_what_max_tokens_cuts_is_called_truncated(replies, kind):
    for signature in ("serving_default", "align"):
        assert array(replies[kind][signature, "mixed"], "truncated").tolist() == [False] * 5 + [True, False]


def test_a_word_of_10_000_letters_is_one_word_and_too_many_pieces(replies):
    assert array(replies["word"]["align", "one word of 10,000 letters"], "truncated").tolist() == [False]
    assert array(replies["subword"]["align", "one word of 10,000 letters"], "truncated").tolist() == [True]


def test_a_sentence_cut_at_max_tokens_has_that_many_tokens_with_end(replies, translators, kind):
    lengths = array(replies[kind]["align", "mixed"], "source_lengths")
    assert lengths[MIXED.index("palabra " * 1250)] == translators[kind].source_text.config.max_tokens


def test_batch_mates_do_not_change_a_reply(replies, kind):
    alone, mixed = (replies[kind]["align", name] for name in ("alone", "mixed"))
    for output in ALIGN - {"score", "log_prob", "alignment", "source_tokens", "target_tokens"}:
        assert array(alone, output)[0] == array(mixed, output)[0], output
    source, target = array(alone, "source_lengths")[0], array(alone, "target_lengths")[0]
    for output in ("score", "log_prob"):
        assert array(alone, output)[0] == pytest.approx(array(mixed, output)[0], abs=1e-5)
    assert array(alone, "source_tokens")[0].tolist() == array(mixed, "source_tokens")[0, :source].tolist()
    assert array(alone, "target_tokens")[0].tolist() == array(mixed, "target_tokens")[0, :target].tolist()
    np.testing.assert_allclose(
        array(alone, "alignment")[0], array(mixed, "alignment")[0, :target, :source], rtol=0, atol=1e-5
    )


@pytest.mark.parametrize("name", ["alone", "mixed"])
def test_a_reply_is_as_wide_as_the_longest_sentence_of_its_request(replies, kind, name):
    reply = replies[kind]["align", name]
    source, target = (max(array(reply, output)) for output in ("source_lengths", "target_lengths"))
    assert array(reply, "source_tokens").shape == (len(FEEDS[name]), source)
    assert array(reply, "target_tokens").shape == (len(FEEDS[name]), target)
    assert array(reply, "alignment").shape == (len(FEEDS[name]), target, source)


def test_alignments_of_real_tokens_sum_to_one_over_the_sentence(replies, kind):
    reply = replies[kind]["align", "mixed"]
    alignment = array(reply, "alignment")
    for row, source, target in zip(
        alignment, *(array(reply, f"{s}_lengths") for s in ("source", "target")), strict=True
    ):
        np.testing.assert_allclose(row[:target, :source].sum(axis=-1), 1.0, atol=1e-5)
        assert not row[:target, source:].any()


def meta_graph(folder):
    """The one meta graph of an export."""
    model = saved_model_pb2.SavedModel()
    model.ParseFromString((folder / "saved_model.pb").read_bytes())
    (found,) = model.meta_graphs
    return found


def nodes(folder):
    """All nodes of an export, those inside its functions too."""
    graph = meta_graph(folder).graph_def
    return [*graph.node, *(node for function in graph.library.function for node in function.node_def)]


def test_every_input_and_output_is_batched(folders, kind):
    for name, signature in meta_graph(folders[kind]).signature_def.items():
        if name == "__saved_model_init_op":
            continue
        for info in (*signature.inputs.values(), *signature.outputs.values()):
            assert len(info.tensor_shape.dim) >= 1
            assert info.tensor_shape.dim[0].size == -1


def test_signatures_take_texts_or_pairs_of_texts(folders, kind):
    signatures = dict(meta_graph(folders[kind]).signature_def)
    signatures.pop("__saved_model_init_op")
    inputs = {name: {"source", "target"} if name == "score" else {"text"} for name in OUTPUTS}
    assert {name: (set(s.inputs), set(s.outputs)) for name, s in signatures.items()} == {
        name: (inputs[name], outputs) for name, outputs in OUTPUTS.items()
    }


def test_the_beam_of_a_greedy_translator_has_its_greedy_translation_or_a_better_one(replies, kind):
    """At equal normalisation: a beam keeps more than the greedy path, and ranks by the same score."""
    beam, greedy = replies[kind]["beam", "alone"], replies[kind]["greedy", "alone"]
    assert array(beam, "scores").shape == (1, BEAM_SIZE)
    assert (np.diff(array(beam, "scores").astype(float)) <= 1e-6).all()
    if array(greedy, "translation")[0] in array(beam, "translations")[0]:
        assert array(beam, "scores")[0, 0] >= array(greedy, "score")[0] - 1e-5


def test_the_score_of_a_translation_is_its_log_probability(folders, translators, kind):
    """Through the reloaded export: what ``align`` says it found is what ``score`` says of it."""
    served, sentence = ServedTranslator(folders[kind]), MIXED[0]
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


def test_every_operation_is_one_that_tensorflow_serving_links(folders, kind):
    operations = {node.op for node in nodes(folders[kind])}
    assert {op for op in operations if not hasattr(tf.raw_ops, op)} <= TEXT_OPERATIONS | function_names(folders[kind])
    assert [op for op in operations if NOT_SERVED.search(op)] == []


def function_names(folder):
    """Names of an export's functions: a node may call one by its name."""
    return {function.signature.name for function in meta_graph(folder).graph_def.library.function}


def test_nothing_is_compiled_by_xla_or_bound_to_a_gpu(folders, kind):
    functions = meta_graph(folders[kind]).graph_def.library.function
    attributes = [(name, value) for x in (*nodes(folders[kind]), *functions) for name, value in x.attr.items()]
    assert [name for name, value in attributes if "xla" in name.lower() and (value.b or value.s)] == []
    assert [node.name for node in nodes(folders[kind]) if "GPU" in node.device] == []


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


def test_the_second_export_is_version_2_and_leaves_version_1_alone(translator, tmp_path):
    first = export(translator, tmp_path / "model")
    before = {path: path.stat().st_mtime_ns for path in first.rglob("*")}
    second = export(translator, tmp_path / "model")
    assert [first.name, second.name] == ["1", "2"]
    assert versions(tmp_path / "model") == [1, 2]
    assert {path: path.stat().st_mtime_ns for path in first.rglob("*")} == before


def write_little(module, folder, signatures):
    """Stands in for ``tf.saved_model.save`` where its result is not run."""
    (Path(folder) / "variables").mkdir()
    (Path(folder) / "variables" / "variables.index").write_text("weights")
    (Path(folder) / "saved_model.pb").write_text("graph")


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """The folder of a model whose exports write little and hence are fast."""
    monkeypatch.setattr(tf.saved_model, "save", write_little)
    return tmp_path / "model"


def test_the_manifest_lies_beside_the_model_with_the_versions_of_the_libraries(translator, folder):
    found = read_manifest(export(translator, folder, {"corpus": "«eña»"}))
    assert found["corpus"] == "«eña»"
    assert found["libraries"]["tensorflow"] == tf.__version__
    assert json.loads((folder / "1" / "assets.extra" / "manifest.json").read_text("utf-8")) == found


def test_a_version_without_manifest_has_an_empty_one(tmp_path):
    assert read_manifest(tmp_path) == {}


@pytest.mark.parametrize("where", ["tf.saved_model.save", "os.fsync", "os.rename"])
def test_an_interrupted_export_leaves_nothing(translator, folder, monkeypatch, where):
    export(translator, folder)

    def interrupt(*arguments, **options):
        assert sorted(child.name for child in folder.iterdir() if child.name.isdecimal()) == ["1"]
        if where == "tf.saved_model.save":
            write_little(*arguments, **options)
        raise KeyboardInterrupt

    owner = {"tf.saved_model.save": tf.saved_model, "os.fsync": os, "os.rename": os}[where]
    monkeypatch.setattr(owner, where.rsplit(".", 1)[1], interrupt)
    with pytest.raises(KeyboardInterrupt):
        export(translator, folder)
    assert [child.name for child in folder.iterdir()] == ["1"]


def test_everything_is_on_the_disk_before_the_version_has_its_number(translator, folder, monkeypatch):
    flushed, fsync, rename = set(), os.fsync, os.rename

    def record(descriptor):
        flushed.add(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    def check(partial, final):
        written = [Path(partial), *Path(partial).rglob("*")]
        assert "manifest.json" in [path.name for path in written]
        assert {path.stat().st_ino for path in written} <= flushed
        assert not Path(partial).name.isdecimal()
        assert Path(partial).parent == Path(final).parent
        rename(partial, final)

    monkeypatch.setattr(os, "fsync", record)
    monkeypatch.setattr(os, "rename", check)
    export(translator, folder)
    assert versions(folder) == [1]
    assert folder.stat().st_ino in flushed


def test_a_version_that_appears_meanwhile_is_not_overwritten(translator, folder, monkeypatch):
    rename = os.rename

    def be_late(partial, final):
        if not (folder / "1").exists():
            (folder / "1").mkdir()
            (folder / "1" / "saved_model.pb").write_text("another's")
        rename(partial, final)

    monkeypatch.setattr(os, "rename", be_late)
    assert export(translator, folder).name == "2"
    assert (folder / "1" / "saved_model.pb").read_text() == "another's"


def test_a_number_taken_by_a_file_or_written_with_zeros_is_passed_over(translator, folder):
    folder.mkdir()
    (folder / "1").write_text("a stray file")
    assert export(translator, folder).name == "2"
    (folder / "0041").mkdir()
    assert export(translator, folder).name == "42"


def test_versions_count_up_past_nine(translator, folder):
    for number in (9, 10, 3):
        (folder / str(number)).mkdir(parents=True)
    assert versions(folder) == [3, 9, 10]
    assert export(translator, folder).name == "11"


def test_a_server_of_another_user_may_read_a_version(translator, folder):
    assert export(translator, folder).stat().st_mode & 0o777 == 0o755


def test_a_folder_that_does_not_exist_has_no_versions(tmp_path):
    assert versions(tmp_path / "nowhere") == []


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
    libraries, replies = run_fresh(python_of_serving, folders)
    assert libraries == {"tensorflow": "2.20.0", "tensorflow-text": "2.20.0"}
    for kind, each in replies.items():
        for (signature, name), reply in each.items():
            if name in REFUSED:
                assert reply["error"] == "InvalidArgumentError"
            else:
                expect_equal(reply, expected[kind][signature, name], tolerance=1e-4)
