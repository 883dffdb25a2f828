"""Translators: all ways to run them agree, and wrong arguments are refused."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from combinations import COMBINATIONS
from tensorflow.python.framework import op_callbacks

import nmt_keras
from nmt_keras.config import SearchConfig
from nmt_keras.export import export
from nmt_keras.models.seq2seq import build_model
from nmt_keras.text import START
from nmt_keras.translation.exported import ServedTranslator
from nmt_keras.translation.model_translator import ModelTranslator

pytestmark = pytest.mark.long

SENTENCES = ["¿Dónde está mi hermana?", "", "No.", "😀 🇪🇸", "  ", "palabra " * 1250, "¡Hola! ¿Qué tal?", "x" * 10_000]
WITH_WORDS = [sentence for sentence in SENTENCES if any(map(str.isalnum, sentence))]
TARGETS = ["No.", "", "Where?", "my sister", "x " * 100, "Hello!", "a b c", "?"]


@pytest.fixture(scope="module")
def version(translator, tmp_path_factory):
    """The exported translator."""
    return export(translator, tmp_path_factory.mktemp("saved_models") / "tiny")


@pytest.fixture(scope="module")
def served(version):
    return ServedTranslator(version)


def eagerly(function, *arguments):
    """Calls a function with every tf.function run eagerly."""
    tf.config.run_functions_eagerly(True)
    try:
        return function(*arguments)
    finally:
        tf.config.run_functions_eagerly(False)


def expect_equal(found, expected):
    """Compares translations, n-best lists or scores. Strings must be equal, numbers within 1e-5 or float32's rounding.

    The log-probability of a long translation is about -180, where two neighbouring float32 numbers differ by 1.5e-5.
    """
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        if isinstance(one, list):
            expect_equal(one, other)
            continue
        for name, value in one._asdict().items():
            if name in ("score", "log_prob", "alignment", "token_log_probs"):
                np.testing.assert_allclose(value, getattr(other, name), rtol=5e-7, atol=1e-5)
            else:
                assert value == getattr(other, name)


def with_search(translator, **changes):
    """Returns the translator with other search settings."""
    return translator.with_search(replace(translator.search, **changes))


# Sentences without words

SIGNS = {
    "": "",
    " \u00a0\u200b ": "",
    "¡!": "¡!",
    "…  ": "…",
    "😀 🇪🇸": "😀 🇪🇸",
    "¿?\u3000!": "¿? !",
    "\u0301": "\u0301",
    "10:30": "10:30",
    "½ ① ٣ <3": "½ ① ٣ <3",
}
"""Sentences without letters, and their translations."""


def test_sentences_without_words_are_copied_and_aligned_one_to_one(translator, beam, served):
    mixed = [*SIGNS, "¿Dónde está mi hermana?"]
    for one in (translator, beam, with_search(translator, precision="bfloat16"), served):
        *copies, translated = one.translate(mixed)
        assert [copy.text for copy in copies] == list(SIGNS.values())
        for copy in copies:
            assert (copy.score, copy.log_prob) == (0.0, 0.0)
            assert copy.tokens == copy.source_tokens
            np.testing.assert_array_equal(copy.alignment, np.eye(len(copy.tokens)))
        expect_equal([translated], one.translate(mixed[-1:]))


def test_sentences_without_words_have_one_hypothesis_and_are_certain(beam, translator):
    for (copy,), text in zip(beam.translate_nbest(list(SIGNS)), SIGNS.values(), strict=True):
        assert (copy.text, copy.log_prob) == (text, 0.0)
    assert len(beam.translate_nbest(["", "No."])[1]) == 4
    scores = translator.score(["¡!", "¡!", "No."], [" ¡!", "!", "No."])
    assert scores[0].log_prob == 0.0
    assert set(scores[0].token_log_probs) == {0.0}
    assert scores[1].log_prob < 0.0
    assert scores[2].log_prob < 0.0


# Ways to run a translator

SEARCHES = {
    "greedy": {},
    "beam": {
        "beam_size": 4,
        "coverage_beta": 0.05,
        "length_normalisation": "gnmt",
        "length_alpha": 0.7,
        "unk_allowed": False,
    },
}


@pytest.fixture(scope="module")
def beam(translator):
    """The translator with beam search and all options of its ranking."""
    return with_search(translator, **SEARCHES["beam"])


@pytest.fixture(scope="module")
def in_bfloat16(translator):
    return with_search(translator, beam_size=4, precision="bfloat16")


@pytest.mark.parametrize("search", SEARCHES)
def test_order_and_batch_mates_change_no_translation(translator, search):
    searching = with_search(translator, **SEARCHES[search])
    alone = [searching.translate([sentence])[0] for sentence in SENTENCES]
    assert len({translation.text for translation in alone}) > 3  # different texts, so that the order is tested
    expect_equal(searching.translate(SENTENCES), alone)
    expect_equal(searching.translate(SENTENCES[::-1], batch_size=3), alone[::-1])


def test_eager_execution_gives_the_numbers_of_the_compiled_function(translator, beam, in_bfloat16):
    expect_equal(eagerly(translator.translate, SENTENCES), translator.translate(SENTENCES))
    for searching in (beam, in_bfloat16):
        expect_equal(eagerly(searching.translate_nbest, SENTENCES[:4]), searching.translate_nbest(SENTENCES[:4]))


@pytest.mark.parametrize("replaces_unknown", [False, True])
def test_a_completed_translation_keeps_unknown_words_of_its_beginning(translator, replaces_unknown):
    searching = with_search(translator, replaces_unknown=replaces_unknown)
    (found,) = searching.complete(["hola"], ["my Zorglub"])
    assert found.tokens[:2] == ["my", "Zorglub"]
    assert found.text.startswith("my Zorglub")


def test_a_search_beyond_the_positions_of_a_self_attention_decoder_is_refused(translator):
    tokenizers, config = (translator.source_tokenizer, translator.target_tokenizer), COMBINATIONS["self-attention"]
    model = build_model(config, *(tokenizer.vocabulary_size for tokenizer in tokenizers))
    with pytest.raises(ValueError, match=r"search: expected max_tokens of at most 11, .*received 12"):
        ModelTranslator(*tokenizers, model, search=SearchConfig(max_tokens=12))


# Fields of a translation


def test_a_score_is_log_prob_per_token_and_rows_of_the_alignment_sum_to_one(translator):
    for found in translator.translate(WITH_WORDS):
        assert found.score == pytest.approx(found.log_prob / len(found.tokens), abs=1e-5)
        assert found.log_prob < 0
        assert found.alignment.shape == (len(found.tokens), len(found.source_tokens))
        np.testing.assert_allclose(found.alignment.sum(axis=1), 1.0, atol=1e-5)
        assert (found.alignment >= 0).all()


def test_a_translation_has_at_most_twice_the_source_tokens_and_ten_and_at_most_max_tokens(translator):
    found = with_search(translator, max_tokens=80).translate(SENTENCES[:3])
    room = [2 * len(translation.source_tokens) + 10 - len(translation.tokens) for translation in found]
    assert min(room) == 0
    assert (
        max(len(translation.tokens) for translation in with_search(translator, max_tokens=3).translate(SENTENCES)) == 3
    )


def test_a_translation_has_at_least_min_tokens(translator):
    patient = with_search(translator, beam_size=3, min_tokens=9, max_tokens=11, length_alpha=0.0)
    lists = patient.translate_nbest(["Sí", "No."])
    assert {len(translation.tokens) for each in lists for translation in each} <= {9, 10, 11}


def test_a_search_in_bfloat16_finds_nearly_the_same(translator, in_bfloat16):
    exact = with_search(translator, beam_size=4)
    pairs = zip(in_bfloat16.translate(SENTENCES), exact.translate(SENTENCES), strict=True)
    same = [(near, found) for near, found in pairs if near.tokens == found.tokens]
    for near, found in same:
        assert near.score == pytest.approx(found.score, abs=0.1)
        np.testing.assert_allclose(near.alignment, found.alignment, atol=0.1)
    assert any(near.score != found.score for near, found in same)


# N-best lists


def test_an_n_best_list_is_ordered_without_duplicates_and_begins_with_the_translation(beam):
    lists = beam.translate_nbest(WITH_WORDS)
    expect_equal([each[0] for each in lists], beam.translate(WITH_WORDS))
    for each in lists:
        assert len({tuple(translation.tokens) for translation in each}) == len(each) == 4
        ranks = [(translation.tokens[-1] != "", -translation.score) for translation in each]  # truncated ones last
        assert ranks == sorted(ranks)


# Given translations


def test_a_given_translation_is_scored_by_teacher_forcing_in_float32(translator, in_bfloat16):
    sources, targets = SENTENCES[:4], ["Where is my sister?", "No.", "", "Tom"]
    scores = in_bfloat16.score(sources, targets)
    assert scores[2].tokens == [""]
    for source, target, found in zip(sources, targets, scores, strict=True):
        ids = translator.target_tokenizer.encode(tf.constant([target])).ids
        previous = tf.concat([[[START]], ids[:, :-1]], axis=1)
        output = translator.model((translator.source_tokenizer.encode(tf.constant([source])).ids, previous))
        wanted = tf.gather(tf.nn.log_softmax(output.logits), ids, batch_dims=2)[0].numpy()
        np.testing.assert_allclose(found.token_log_probs, wanted, atol=1e-5)
        assert found.log_prob == pytest.approx(wanted.sum(), abs=1e-4)
        assert len(found.tokens) == len(wanted)


def test_order_and_batch_mates_change_no_score(translator):
    together = translator.score(SENTENCES, TARGETS)
    pairs = zip(SENTENCES, TARGETS, strict=True)
    expect_equal(together, [translator.score([source], [target])[0] for source, target in pairs])
    assert [found.truncated for found in together] == [False] * 4 + [True, True, False, True]


def test_a_translation_continues_its_beginning(beam, pairs):
    begun = " ".join(pairs[0].target.split()[:2])
    first, free = beam.complete(SENTENCES[:2], [begun, ""])
    wanted = beam.score(["x"], [begun])[0].tokens[:-1]
    assert len(wanted) > 1
    assert first.tokens[: len(wanted)] == wanted
    assert first.tokens != beam.translate(SENTENCES[:1])[0].tokens
    expect_equal([free], beam.translate([SENTENCES[1]]))


# Wrong arguments


@pytest.mark.parametrize("sentences", ["hola", b"hola", ["hola", None], [b"hola"], [["hola"]], None, 7, iter(["hola"])])
def test_anything_but_a_list_of_strings_is_refused(translator, sentences):
    with pytest.raises(TypeError, match=r"^sentences: "):
        translator.translate(sentences)
    with pytest.raises(TypeError, match=r"^texts: "):
        translator.translate_texts(sentences)
    with pytest.raises(TypeError, match=r"^targets: "):
        translator.score(["hola"], sentences)


def test_wrong_batch_sizes_and_lists_of_unequal_length_are_refused(translator):
    with pytest.raises(ValueError, match=r"batch_size.*0"):
        translator.translate(["hola"], batch_size=0)
    with pytest.raises(ValueError, match=r"sources, targets: .*\[2, 1\]"):
        translator.score(["hola", "adiós"], ["hello"])


def test_an_export_runs_functions_and_no_eager_operations_which_threads_on_a_gpu_cannot(version):
    found = set()

    def record(operation, *_, **__):
        found.add(operation)

    beam, text = ServedTranslator(version, SearchConfig(beam_size=5)), tf.constant(SENTENCES)
    beam.decode(text)  # traces
    op_callbacks.add_op_callback(record)
    try:
        beam.decode(text)
    finally:
        op_callbacks.remove_op_callback(record)
    assert len(found) == 2
    assert all(operation.startswith("__inference") for operation in found), found


def test_a_savedmodel_without_a_signature_is_refused_by_its_name(tmp_path):
    function = tf.function(tf.strings.upper, input_signature=[tf.TensorSpec([None], tf.string)])
    for name in ("serving_default", "align"):
        tf.saved_model.save(tf.Module(), str(tmp_path / name), signatures={name: function})
    with pytest.raises(ValueError, match=r"'align'.*\['serving_default'\]"):
        ServedTranslator(tmp_path / "serving_default")
    with pytest.raises(ValueError, match=r"'beam'.*\['align'\]"):
        ServedTranslator(tmp_path / "align").translate_nbest(["hola"])


# Loading


def test_the_newest_exported_version_in_a_folder_loads_in_one_call(version, translator, tmp_path):
    (tmp_path / "9").mkdir()
    (tmp_path / "0010").symlink_to(version)
    loaded = nmt_keras.load(str(tmp_path))
    expect_equal(loaded.translate(SENTENCES), translator.translate(SENTENCES))
    assert loaded.translate([]) == []


def test_a_path_that_is_neither_run_nor_export_is_refused(tmp_path):
    (tmp_path / "notes.txt").touch()
    for path, message in ((tmp_path, "'notes.txt'"), (tmp_path / "notes.txt", "a file")):
        with pytest.raises(ValueError, match=rf"path: .*{message}"):
            nmt_keras.load(path)
    with pytest.raises(FileNotFoundError, match=r"path: .*nowhere"):
        nmt_keras.load(tmp_path / "nowhere")


def test_an_exported_version_loads_without_the_code_that_trained_it(version):
    unused = {
        "tensorflow_text.python",
        *map("nmt_keras.{}".format, ("corpus", "layers", "models", "runs", "search", "text")),
    }
    program = (
        f"import sys, nmt_keras; nmt_keras.load(sys.argv[1]).translate(['No.']); print({unused} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program, version], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "set()", done.stderr[-2000:]
