"""Shortlists: the formula that ranks tokens, the tokens of each sentence, and a search over only these tokens."""

import math
import shutil
from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny import TINY_MODEL, TINY_RECIPE, randomise

from nmt_keras.corpus import SplitCorpus
from nmt_keras.corpus.batches import TokenLists
from nmt_keras.export import export, load_exported
from nmt_keras.models.ensemble import Ensemble
from nmt_keras.models.seq2seq import build_model
from nmt_keras.runs import Run
from nmt_keras.runs.directory import SHORTLIST
from nmt_keras.search.shortlist import (
    BatchShortlist,
    LexicalTable,
    Shortlist,
    ShortlistMemory,
    learn_lexical_table,
    load_lexical_table,
    save_lexical_table,
)
from nmt_keras.translation.model_translator import ModelTranslator

PAD, UNK, START, END = range(4)
SENTENCES = ["¿Dónde está mi hermana?", "No.", "Ana lava los platos sucios cada mañana.", "Xyz"]


def lists(sentences):
    return TokenLists(np.array([i for s in sentences for i in s]), np.array([len(s) for s in sentences]))


# Learning


@pytest.mark.parametrize("at_once", [3, 64])
def test_tokens_are_ranked_by_their_part_of_the_mutual_information(at_once, monkeypatch):
    monkeypatch.setattr("nmt_keras.search.shortlist.ROWS_AT_ONCE", at_once)
    source = [[4, 5, END], [4, END], [5, 5, END], [6, END]]
    target = [[4, 6, END], [4, END], [6, 5, END], [5, 7, END]]
    given = lists(source)
    found = learn_lexical_table(given, lists(target), 8, 9)
    np.testing.assert_array_equal(given.flat, lists(source).flat)  # the caller's lists are not changed
    pairs = len(source)

    def information(s, t):
        together = sum(s in x and t in y for x, y in zip(source, target, strict=True))
        apart = sum(s in x for x in source) * sum(t in y for y in target)
        return together * math.log(pairs * together / apart) if together else -math.inf

    for s in range(8):
        gains = {t: information(s, t) for t in range(9)}
        wanted = sorted((t for t in gains if gains[t] > 1e-9), key=lambda t: (-round(gains[t], 9), t))
        row = found.by_source[s].tolist()
        assert row[: len(wanted)] == wanted
        assert set(row[len(wanted) :]) <= {PAD}
    assert found.by_source[4].tolist()[:2] == [4, PAD]  # 4 and 6 occur together as often as by chance


@pytest.mark.parametrize(
    ("target", "size", "common", "wanted"),
    [
        # 5 is in three sentences, 7 in two; 9 is twice in one
        ([[9, 9, 5, END], [5, 7, END], [7, 8, 5, END]], 10, 6, [PAD, UNK, START, END, 5, 7]),
        ([[4, END]], 6, 1000, [PAD, UNK, START, END, 4, 5]),
        ([], 9, 5, [PAD, UNK, START, END, 4]),
    ],
    ids=["frequent", "small vocabulary", "empty corpus"],
)
def test_special_ids_and_the_most_frequent_tokens_always_compete(target, size, common, wanted):
    found = learn_lexical_table(lists([[4, END]] * len(target)), lists(target), 5, size, common=common)
    assert found.common.tolist() == wanted
    assert Shortlist(found, size).narrows == (len(wanted) < size)


def test_tables_come_back_from_their_file_and_another_is_refused(tmp_path):
    table = learn_lexical_table(lists([[4, END]]), lists([[5, END]]), 6, 7, common=5)
    save_lexical_table(table, tmp_path / "shortlist.npz")
    for found, wanted in zip(load_lexical_table(tmp_path / "shortlist.npz"), table, strict=True):
        np.testing.assert_array_equal(found, wanted)
        assert found.dtype == np.int32
    whole = (tmp_path / "shortlist.npz").read_bytes()
    np.savez(tmp_path / "other.npz", words=np.arange(3))
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "empty.npz").write_bytes(b"")
    for name in ("other.npz", "cut.npz", "empty.npz"):
        with pytest.raises(ValueError, match=name):
            load_lexical_table(tmp_path / name)


# Words


def test_a_batch_s_tokens_are_those_of_all_its_sentences_with_a_bias_for_each():
    by_source = np.array([[0, 0]] * 4 + [[9, 5], [6, 0], [8, 9]], np.int32)
    shortlist = Shortlist(LexicalTable(by_source, np.array([0, 1, 2, 3, 7], np.int32)), 11)
    words = shortlist.of_batch(tf.constant([[4, 5, END], [6, END, PAD]]), 1, prefix=tf.constant([[PAD], [10]]))
    assert words.ids.numpy().tolist() == [0, 1, 2, 3, 6, 7, 8, 9, 10]
    own = [{6, 9}, {8, 10}]
    for tokens, logit_bias in zip(own, words.logit_bias.numpy(), strict=True):
        wanted = [0.0 if i in {0, 1, 2, 3, 7} | tokens else -math.inf for i in words.ids.numpy()]
        assert logit_bias.tolist() == wanted
    empty = shortlist.of_batch(tf.zeros([0, 1], tf.int32), 1)
    assert empty.ids.numpy().tolist() == [0, 1, 2, 3, 7]
    assert empty.logit_bias.shape == (0, 5)


# Search


@pytest.fixture(scope="module")
def narrowing(translator):
    """The tiny translator with a shortlist from a random lexical table."""
    random = np.random.default_rng(5)
    sizes = translator.source_tokenizer.vocabulary_size, translator.target_tokenizer.vocabulary_size
    by_source = random.integers(4, sizes[1], [sizes[0], 6]).astype(np.int32)
    by_source[PAD] = PAD
    return ModelTranslator(
        translator.source_tokenizer,
        translator.target_tokenizer,
        translator.model,
        search=replace(translator.search, shortlist=3),
        shortlist=Shortlist(LexicalTable(by_source, np.arange(9, dtype=np.int32)), sizes[1]),
    )


def own_words(translator, sentence, size):
    """Returns the ids of a sentence's shortlist, computed from the tables."""
    by_source, is_common = (v.numpy() for v in (translator.shortlist._by_source, translator.shortlist._is_common))
    ids = translator.source_tokenizer.encode(tf.constant([sentence])).ids.numpy()[0] if sentence else [END]
    return sorted({*np.flatnonzero(is_common).tolist(), *by_source[ids, :size].ravel().tolist()})


def ids_of(translator, found):
    tokenizer = translator.target_tokenizer
    known = tokenizer.surfaces(tf.range(tokenizer.vocabulary_size)[tf.newaxis])[0].numpy().tolist()
    return [END if token == "" else known.index(token.encode()) for token in found.tokens]


@pytest.mark.parametrize("width", [1, 3])
def test_a_search_reads_the_model_s_softmax_over_the_sentence_s_own_tokens(narrowing, width):
    searching = narrowing.with_search(replace(narrowing.search, beam_size=width))
    for sentence, found in zip(SENTENCES, searching.translate(SENTENCES), strict=True):
        own, ids = own_words(narrowing, sentence, 3), ids_of(narrowing, found)
        assert set(ids) <= set(own)
        source = narrowing.source_tokenizer.encode(tf.constant([sentence])).ids
        logits = narrowing.model((source, tf.constant([[START, *ids[:-1]]]))).logits.numpy()[0]
        log_probs = logits - np.log(np.exp(logits[:, own]).sum(axis=1, keepdims=True))
        assert found.log_prob == pytest.approx(sum(log_probs[t, i] for t, i in enumerate(ids)), abs=1e-4)
        if width == 1:
            allowed = [i for i in own if i not in (PAD, START)]
            assert ids == [allowed[row[allowed].argmax()] for row in log_probs]


@pytest.mark.parametrize("tied", [False, True])
def test_the_narrowed_logits_are_the_model_s_own_also_with_tied_embeddings(tied):
    decoder = replace(TINY_MODEL.decoder, output_units=TINY_MODEL.embedding_size, tie_embeddings=tied)
    model = build_model(replace(TINY_MODEL, decoder=decoder), 11, 13)
    randomise(model, 1)
    competing, last = tf.constant([0, 1, 2, 3, 7, 12]), tf.constant([[2], [7]])
    memory = model.encode(tf.constant([[4, 5, END], [6, END, PAD]]))
    state = model.initial_state(memory)
    step = BatchShortlist(competing, tf.zeros([2, 6])).step_function(model)
    found = step(tf.constant([[2], [4]]), state, ShortlistMemory(memory, tf.zeros([2, 6])))  # places of 2 and 7
    wanted = model.step(last, state, memory)
    np.testing.assert_allclose(found.logits, tf.gather(wanted.logits, competing, axis=-1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("width", "precision"), [(1, "float32"), (3, "float32"), (3, "bfloat16")])
def test_batch_mates_change_nothing(narrowing, width, precision):
    searching = narrowing.with_search(replace(narrowing.search, beam_size=width, precision=precision))
    together = searching.translate(SENTENCES, batch_size=len(SENTENCES))
    for sentence, found in zip(SENTENCES, together, strict=True):
        (alone,) = searching.translate([sentence])
        assert found.text == alone.text
        assert found.log_prob == pytest.approx(alone.log_prob, abs=1e-4)


def test_a_shortlist_of_all_words_changes_nothing(translator):
    sizes = translator.source_tokenizer.vocabulary_size, translator.target_tokenizer.vocabulary_size
    every = np.tile(np.arange(sizes[1] - 100, sizes[1], dtype=np.int32), [sizes[0], 1])
    whole = Shortlist(LexicalTable(every, np.arange(sizes[1] - 100, dtype=np.int32)), sizes[1])
    assert whole.narrows
    search = replace(translator.search, beam_size=3, n_best=3)
    texts = translator.source_tokenizer, translator.target_tokenizer
    found = ModelTranslator(*texts, translator.model, search=replace(search, shortlist=100), shortlist=whole)
    for few, all_of_them in zip(
        found.translate_nbest(SENTENCES), translator.with_search(search).translate_nbest(SENTENCES), strict=True
    ):
        assert [one.text for one in few] == [one.text for one in all_of_them]
        np.testing.assert_allclose([one.score for one in few], [one.score for one in all_of_them], atol=1e-5)


@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-4), ("bfloat16", 1.0)])
def test_an_ensemble_averages_probabilities_over_the_shortlist(narrowing, precision, tolerance):
    keras.utils.set_random_seed(3)
    sizes = narrowing.source_tokenizer.vocabulary_size, narrowing.target_tokenizer.vocabulary_size
    models = [build_model(TINY_MODEL, *sizes) for _ in range(2)]
    for seed, model in enumerate(models):
        randomise(model, seed)
    texts = narrowing.source_tokenizer, narrowing.target_tokenizer
    search = replace(narrowing.search, precision=precision)
    ensemble = ModelTranslator(*texts, Ensemble(models), search=search, shortlist=narrowing.shortlist)
    for sentence, found in zip(SENTENCES, ensemble.translate(SENTENCES), strict=True):
        own, ids = own_words(narrowing, sentence, 3), ids_of(narrowing, found)
        source = narrowing.source_tokenizer.encode(tf.constant([sentence])).ids
        given = source, tf.constant([[START, *ids[:-1]]])
        of_each = [np.exp(model(given).logits.numpy()[0][:, own]) for model in models]
        mean = np.mean([each / each.sum(axis=1, keepdims=True) for each in of_each], axis=0)
        wanted = sum(math.log(mean[t, own.index(i)]) for t, i in enumerate(ids))
        assert found.log_prob == pytest.approx(wanted, abs=tolerance)


def test_an_export_searches_with_its_shortlist(narrowing, tmp_path):
    beam = narrowing.with_search(replace(narrowing.search, beam_size=2, precision="bfloat16"))
    served = load_exported(export(beam, tmp_path / "narrow"))
    for found, wanted in zip(served.translate_nbest(SENTENCES), beam.translate_nbest(SENTENCES), strict=True):
        assert [one.text for one in found] == [one.text for one in wanted]
        np.testing.assert_allclose([one.log_prob for one in found], [one.log_prob for one in wanted], atol=1e-5)
    greedy = replace(beam.search, beam_size=1)
    found, wanted = (each.with_search(greedy).translate(SENTENCES) for each in (served, beam))
    assert [one.text for one in found] == [one.text for one in wanted]


# Runs


def test_a_shortlist_without_a_lexical_table_is_rejected(translator):
    with pytest.raises(ValueError, match=r"SearchConfig\.shortlist: .* 5.*nmt shortlist"):
        translator.with_search(replace(translator.search, shortlist=5))


def test_a_run_learns_its_table_on_request_or_when_its_recipe_asks_for_it(pairs, run_folder, tmp_path):
    asked = shutil.copytree(run_folder, tmp_path / "asked")
    Run(asked).learn_shortlist(pairs[:80])
    learnt = load_lexical_table(asked / SHORTLIST)
    assert learnt.by_source.any()
    assert not (run_folder / SHORTLIST).exists()

    recipe = replace(TINY_RECIPE, search=replace(TINY_RECIPE.search, shortlist=2))
    run = Run(tmp_path / "run", recipe)
    run.train(SplitCorpus("sample", pairs[:80], pairs[80:100], pairs[100:]), lambda _: None, lambda *_: None)
    np.testing.assert_array_equal(load_lexical_table(run.folder / SHORTLIST).by_source, learnt.by_source)
    save_lexical_table(learnt._replace(common=learnt.common[:6]), run.folder / SHORTLIST)
    narrow = run.translator()
    assert str(narrow.search) == "greedy, shortlist 2"
    assert narrow.shortlist.narrows
    for sentence, found in zip(SENTENCES, narrow.translate(SENTENCES), strict=True):
        assert set(ids_of(narrow, found)) <= set(own_words(narrow, sentence, 2))
