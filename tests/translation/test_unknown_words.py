"""Unknown words: what is written in their place, from the search to the text, a run, and an exported ensemble."""

import shutil
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import tensorflow as tf
from tiny import TINY_TEXT, randomise

import nmt_keras
from nmt_keras.config import END, PAD, UNK, AttentionConfig, DecoderConfig, ModelConfig, Recipe, SearchConfig
from nmt_keras.export import export
from nmt_keras.export.fresh_process import Request, ask
from nmt_keras.models.ensemble import Ensemble
from nmt_keras.models.seq2seq import build_model
from nmt_keras.runs import Run
from nmt_keras.text import Tokens, fit_tokenizer
from nmt_keras.training import save_weights
from nmt_keras.translation.unknown_words import UnknownWords, learn_lexicon, load_lexicon


def tokens(*sentences):
    """A source of words that are all unknown."""
    longest = 1 + max(len(sentence.split()) for sentence in sentences)
    surface = [[*s.split(), *[""] * (longest - len(s.split()))] for s in sentences]
    lengths = tf.constant([len(s.split()) + 1 for s in sentences])
    ids = tf.where(tf.sequence_mask(lengths - 1, longest), UNK, PAD)
    return Tokens(ids, tf.constant(surface), lengths, tf.zeros_like(lengths, tf.bool))


def test_the_word_looked_at_most_is_translated_or_else_copied():
    alignments = tf.constant([[[[0.7, 0.2, 0.1], [0.1, 0.8, 0.1]]], [[[0.6, 0.4, 0.0], [0.1, 0.9, 0.0]]]])  # [2,1,2,3]
    found = UnknownWords({"casa": "house"}).replacements(tokens("casa Ávila", "Lima"), alignments)
    # the second sentence's second row looked at its END, which is no word: what it looked at next is taken
    assert found.numpy().tolist() == [[[b"house", "Ávila".encode()]], [[b"Lima", b"Lima"]]]


def test_a_source_of_no_word_has_nothing_to_put_there():
    source = Tokens(tf.constant([[END]]), tf.constant([[""]]), tf.constant([1]), tf.constant([False]))
    assert UnknownWords({"casa": "house"}).replacements(source, tf.ones([1, 1, 2, 1])).numpy().tolist() == [
        [[b"", b""]]
    ]


def test_a_text_writes_what_is_given_in_place_of_unk_alone():
    text = fit_tokenizer(TINY_TEXT, ["the house , the dog"])
    ids = text.encode(tf.constant(["the Xyz , house Qrs"])).ids
    unknown = tf.constant([["a", "Ávila", "b", "c", "", "d"]])
    assert text.decode(ids, unknown=unknown).numpy().tolist() == ["the Ávila, house ⁇".encode()]
    shown = [word.decode() for word in text.surfaces(ids, unknown).numpy()[0]]
    assert shown == ["the", "Ávila", ",", "house", "⁇", ""]
    assert text.decode(ids).numpy().tolist() == ["the ⁇, house ⁇".encode()]


@pytest.fixture(scope="module")
def replacing(translator):
    """The tiny translator with the bias of UNK raised, so that it writes it often, and a lexicon."""
    search = replace(translator.search, replaces_unknown=True)
    return type(translator)(
        translator.source_tokenizer,
        translator.target_tokenizer,
        translator.model,
        search,
        UnknownWords({"hermana": "sister"}),
    )


def stranger_to(translator):
    """A model of the same sizes that has learnt nothing."""
    made = build_model(
        translator.model.config,
        translator.source_tokenizer.vocabulary_size,
        translator.target_tokenizer.vocabulary_size,
    )
    randomise(made, 7)
    return made


@pytest.fixture
def writing_unknown_words(translator):
    """Makes the shared model's UNK probable, and puts it back."""
    bias = next(v for v in translator.model.variables if v.shape == (translator.target_tokenizer.vocabulary_size,))
    before = bias.numpy()
    after = before.copy()
    after[UNK] += 8.0
    bias.assign(after)
    yield
    bias.assign(before)


def test_a_translation_shows_replaced_words_in_its_text_and_tokens(replacing, writing_unknown_words):
    plain = replacing.with_search(replace(replacing.search, replaces_unknown=False))
    sentences = ["mi hermana", "Zaragoza"]
    assert all("⁇" in t.text for t in plain.translate(sentences))
    for before, after in zip(plain.translate(sentences), replacing.translate(sentences), strict=True):
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


def test_replacing_needs_an_attention_that_looks_somewhere():
    nothing = ModelConfig(attention=AttentionConfig("none"), decoder=DecoderConfig(output="state"))
    with pytest.raises(ValueError, match=r"SearchConfig\.replaces_unknown: .*'none'"):
        Recipe("x", model=nothing, search=SearchConfig(replaces_unknown=True))


def test_a_run_learns_its_lexicon_and_replaces_with_it(run_folder, pairs, tmp_path, monkeypatch):
    run = shutil.copytree(run_folder, tmp_path / "run")
    monkeypatch.setattr("nmt_keras.runs.run.learn_lexicon", partial(learn_lexicon, min_share=0.0))  # of random weights
    entries = Run(run).learn_lexicon(pairs)
    lexicon = load_lexicon(run / "lexicon.tsv")
    assert entries == len(lexicon) > 0
    assert Run(run).translator().unknown_words.lexicon == lexicon
    assert Run(run_folder).translator().unknown_words.lexicon == {}


def test_runs_of_one_vocabulary_translate_as_an_ensemble(run_folder, tmp_path):
    other = shutil.copytree(run_folder, tmp_path / "other")
    shutil.rmtree(other / "checkpoints")
    save_weights(stranger_to(Run(run_folder).translator()), other / "checkpoints", 1)
    alone, strange, both = nmt_keras.load(run_folder), nmt_keras.load(other), nmt_keras.load(run_folder, other)
    sources, targets = ["No.", "¿Sí?"], ["No.", "Yes?"]
    for one, two, mean in zip(*(t.score(sources, targets) for t in (alone, strange, both)), strict=True):
        wanted = np.logaddexp(one.token_log_probs, two.token_log_probs) - np.log(2.0)
        np.testing.assert_allclose(mean.token_log_probs, wanted, atol=1e-4)
        assert abs(one.log_prob - two.log_prob) > 0.1


def test_runs_of_two_vocabularies_are_refused(run_folder, tmp_path):
    other = shutil.copytree(run_folder, tmp_path / "other")
    fit_tokenizer(Run(other).recipe.target, ["another corpus"]).save(other / "target")
    with pytest.raises(ValueError, match=r"one target vocabulary, received .*other/target, which differs"):
        nmt_keras.load(run_folder, other)


@pytest.mark.saved_model
def test_an_exported_ensemble_replaces_unknown_words_in_a_process_without_keras(
    replacing, writing_unknown_words, tmp_path
):
    ensemble = Ensemble([replacing.model, stranger_to(replacing)])
    both = type(replacing)(
        replacing.source_tokenizer, replacing.target_tokenizer, ensemble, replacing.search, replacing.unknown_words
    )
    version = export(both, tmp_path / "ensemble")
    sentences = ["mi hermana", "Zaragoza"]
    wanted = [t.text for t in both.translate(sentences)]
    assert all("⁇" not in text for text in wanted)
    scores = [t.score for t in both.translate(sentences)]
    asked = ask([version], [Request("serving_default", [sentences])])
    ((reply,),) = asked.models[0].replies
    assert reply["outputs"]["translation"]["values"] == wanted
    np.testing.assert_allclose(reply["outputs"]["score"]["values"], scores, atol=1e-4)
    alone = [t.score for t in replacing.translate(sentences)]
    assert np.abs(np.subtract(alone, scores)).min() > 1e-3
