"""Replacement of unknown words in searches, texts, runs and exported ensembles. Loading of ensembles."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from tensors import assert_same
from tiny import TINY_MODEL, TINY_TEXT, randomise, save_weights

import nmt_keras
from nmt_keras.config import PAD, UNK, AttentionConfig, DecoderConfig, ModelConfig, Recipe, SearchConfig
from nmt_keras.corpus import Pair
from nmt_keras.models.ensemble import models_of
from nmt_keras.models.seq2seq import build_model
from nmt_keras.runs import Run
from nmt_keras.text import Codec, Tokens, fit_tokenizer
from nmt_keras.translation.model_translator import ModelTranslator
from nmt_keras.translation.unknown_words import MAX_COPIED_BYTES, UnknownWords, load_lexicon

pytestmark = pytest.mark.long


def tokens(*sentences):
    """Returns source tokens that are all unknown."""
    longest = 1 + max(len(sentence.split()) for sentence in sentences)
    surface = [[*s.split(), *[""] * (longest - len(s.split()))] for s in sentences]
    lengths = tf.constant([len(s.split()) + 1 for s in sentences])
    ids = tf.where(tf.sequence_mask(lengths - 1, longest), UNK, PAD)
    return Tokens(ids, tf.constant(surface), lengths, tf.zeros_like(lengths, tf.bool), tf.constant(sentences))


def test_the_source_word_of_the_largest_weight_is_translated_or_copied():
    alignments = tf.constant([[[[0.7, 0.2, 0.1], [0.1, 0.8, 0.1]]], [[[0.6, 0.4, 0.0], [0.1, 0.9, 0.0]]]])  # [2,1,2,3]
    found = UnknownWords({"casa": "house"}).replacements(tokens("casa Ávila", "Lima"), alignments)
    # in the second row of the second sentence, END has the largest weight; it is not a word, so the next counts
    assert found.numpy().tolist() == [[[b"house", "Ávila".encode()]], [[b"Lima", b"Lima"]]]


def test_a_word_that_is_too_long_is_not_copied():
    words = ["x" * MAX_COPIED_BYTES, "é" * MAX_COPIED_BYTES]
    found = UnknownWords({}).replacements(tokens(" ".join(words)), tf.constant([[[[0.9, 0.1, 0.0], [0.1, 0.9, 0.0]]]]))
    assert found.numpy().tolist() == [[[words[0].encode(), b""]]]


def test_replacements_are_written_for_unk_only():
    text = fit_tokenizer(TINY_TEXT, ["the house , the dog"])
    codec, source = Codec(text, text), Codec(text, text).encode_source(tf.constant(["the"]))
    ids, _, lengths, *_ = text.encode(tf.constant(["the Xyz , house Qrs"]))
    unknown = tf.constant([[["a", "Ávila", "b", "c", "", "d"]]])
    written, shown = codec.decode(ids[:, tf.newaxis], lengths[:, tf.newaxis], source, unknown)
    assert written.numpy().tolist() == [["the Ávila, house ⁇".encode()]]
    assert [word.decode() for word in shown.numpy()[0, 0]] == ["the", "Ávila", ",", "house", "⁇", ""]
    assert text.decode(ids).numpy().tolist() == ["the ⁇, house ⁇".encode()]


@pytest.fixture(scope="module")
def replacing(translator):
    """The tiny translator with replacement of unknown words, and with a bias that makes UNK frequent."""
    (bias,) = (v for v in translator.model.variables if v.shape == (translator.target_tokenizer.vocabulary_size,))
    before = bias.numpy()
    bias.assign(before + 8.0 * (np.arange(len(before)) == UNK))
    yield ModelTranslator(
        translator.source_tokenizer,
        translator.target_tokenizer,
        translator.model,
        search=replace(translator.search, replaces_unknown=True),
        unknown_words=UnknownWords({"hermana": "sister"}),
    )
    bias.assign(before)


def test_replacements_appear_in_the_text_and_the_tokens_and_change_nothing_else(replacing):
    plain = replacing.with_search(replace(replacing.search, replaces_unknown=False))
    sentences = ["mi hermana", "Zaragoza"]
    for before, after in zip(plain.translate(sentences), replacing.translate(sentences), strict=True):
        assert "⁇" in before.text
        assert "⁇" not in after.text
        assert (after.score, after.log_prob) == (before.score, before.log_prob)
        np.testing.assert_array_equal(after.alignment, before.alignment)
        for token, shown, row in zip(before.tokens, after.tokens, before.alignment, strict=True):
            looked_at = before.source_tokens[int(np.argmax(row[:-1]))]
            wanted = {"hermana": "sister"}.get(looked_at, looked_at) if token == "⁇" else token
            assert shown == wanted
    beam = replace(replacing.search, beam_size=3)
    for hypotheses in replacing.with_search(beam).translate_nbest(sentences):
        assert all("⁇" not in hypothesis.text for hypothesis in hypotheses)


def test_given_pairs_are_aligned_as_they_are_written(replacing):
    (pair,) = replacing.align(["Zaragoza es bonita."], ["Saragossa is nice."])
    assert pair.source == ["Zaragoza", "es", "bonita", ".", ""]
    assert pair.target == ["Saragossa", "is", "nice", ".", ""]
    np.testing.assert_allclose(pair.alignment.sum(axis=1), np.ones(5), atol=1e-6)


def test_replacement_needs_attention_weights():
    nothing = ModelConfig(attention=AttentionConfig("none"), decoder=DecoderConfig(output="state"))
    with pytest.raises(ValueError, match=r"replaces_unknown.*none"):
        Recipe("x", model=nothing, search=SearchConfig(replaces_unknown=True))


def test_a_run_learns_its_lexicon_and_replaces_with_it(run_folder, pairs, tmp_path):
    run = Run(shutil.copytree(run_folder, tmp_path / "run"))
    entries = run.learn_lexicon([Pair(pair.source, "house") for pair in pairs for _ in range(2)])
    lexicon = load_lexicon(run.folder / "lexicon.tsv")
    assert entries == len(lexicon)
    assert set(lexicon.values()) == {"house"}
    assert run.translator().unknown_words.lexicon == lexicon
    assert Run(run_folder).translator().unknown_words.lexicon == {}


def test_runs_of_one_vocabulary_are_an_ensemble(run_folder, tmp_path):
    other = shutil.copytree(run_folder, tmp_path / "other")
    shutil.rmtree(other / "checkpoints")
    alone = nmt_keras.load(run_folder)
    stranger = build_model(TINY_MODEL, alone.model.source_vocabulary_size, alone.model.target_vocabulary_size)
    randomise(stranger, 7)
    save_weights(stranger, other / "checkpoints", 1)
    both = nmt_keras.load(run_folder, other)
    for member, wanted in zip(models_of(both.model), (alone.model, stranger), strict=True):
        assert_same(member.get_weights(), wanted.get_weights(), rtol=0.0, atol=0.0)
    assert [checkpoint.step for checkpoint in both.checkpoints] == [alone.checkpoints[0].step, 1]


def test_runs_of_two_vocabularies_are_refused(run_folder, tmp_path):
    other = shutil.copytree(run_folder, tmp_path / "other")
    fit_tokenizer(Run(other).recipe.target, ["another corpus"]).save(other / "target")
    with pytest.raises(ValueError, match=r"target vocabulary.*other/target"):
        nmt_keras.load(run_folder, other)
