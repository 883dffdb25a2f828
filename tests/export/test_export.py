"""Exports: their contents, and their replies in a fresh process that runs them as TensorFlow Serving does."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
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
from nmt_keras.export import BEAM_SIZE, CONTRACT, export, load_exported, versions
from nmt_keras.export.assets import SIDES, named_variables, read_weights
from nmt_keras.export.fresh_process import ask
from nmt_keras.export.verification import FEEDS, REFUSED, REQUESTS, checks, named
from nmt_keras.export.warmup import LARGE
from nmt_keras.models.ensemble import Ensemble
from nmt_keras.models.seq2seq import build_model
from nmt_keras.text import fit_tokenizer, load_tokenizer
from nmt_keras.translation.model_translator import ModelTranslator
from serve.models.servable import Servable
from serve.models.warmup import load_warm

pytestmark = pytest.mark.long

COMPACT = ExportConfig(half_precision=True, micro_batching=MicroBatchingConfig(max_batch_size=4, wait_ms=20.0))
CONFIGS = {"subword": ExportConfig(), "compact": COMPACT}
FOLDERS = {"subword": "subword [v2]", "compact": "compact caf\udce9"}
"""A model's folder may have any name: TensorFlow reads the first as a pattern, and the second is not UTF-8."""
BEAMS = {"subword": 3, "compact": BEAM_SIZE}
"""Beam size of the signature ``beam``."""
ANSWERED = sorted(FEEDS.keys() - set(REFUSED))


@pytest.fixture(scope="module")
def translators(translator, pairs):
    """A word translator, a subword translator with beam search, and the word translator in half precision."""
    config = TokenizerConfig("subword", 367, max_tokens=61)
    subwords = [fit_tokenizer(config, side) for side in zip(*pairs, strict=True)]
    sizes = ModelConfig(3, EncoderConfig(units=5), AttentionConfig(units=11), DecoderConfig(units=7, output_units=13))
    model = build_model(sizes, *(each.vocabulary_size for each in subwords))
    randomise(model, 5)
    search = SearchConfig(beam_size=BEAMS["subword"], max_tokens=13, no_repeat_ngram_size=2)
    words = [translator.source_tokenizer, translator.target_tokenizer]
    rounded = build_model(TINY_MODEL, *(each.vocabulary_size for each in words))
    for variable, exact in zip(rounded.variables, translator.model.variables, strict=True):
        variable.assign(exact.numpy().astype(np.float16).astype(np.float32))
    return {
        "word": translator,
        "subword": ModelTranslator(*subwords, model, search=search),
        "compact": ModelTranslator(*words, rounded, search=translator.search),
    }


@pytest.fixture(scope="module")
def folders(translators, tmp_path_factory):
    """Version 1 of each translator. The export rounds the weights of the compact one."""
    models = tmp_path_factory.mktemp("saved_models")
    exported = {"subword": translators["subword"], "compact": translators["word"]}
    return {kind: export(exported[kind], models / FOLDERS[kind], config=config) for kind, config in CONFIGS.items()}


@pytest.fixture(scope="module")
def expected(translators):
    """The outputs of the translators for the feeds that are lists of sentences, by kind, signature and name."""
    found = {}
    for kind in CONFIGS:
        search = translators[kind].search
        by_beam = {k: translators[kind].with_search(replace(search, beam_size=k)) for k in (1, BEAMS[kind])}
        translator = by_beam[search.beam_size]
        functions = {
            "serving_default": translator.decode,
            **dict.fromkeys(("align", "greedy"), by_beam[1].decode),
            "text": translator.decode_texts,
            "sentences": translator.decode_sentences,
            "beam": by_beam[BEAMS[kind]].decode_nbest,
            "score": lambda text, translator=translator: translator.decode_scored(text, text),
        }
        for (signature, function), name in itertools.product(functions.items(), ANSWERED):
            found[kind, signature, name] = [function(raw(feed)) for feed in FEEDS[name]]
    return found


@pytest.fixture(scope="module")
def answered(folders):
    """The replies of each export in a fresh process."""
    return {kind: ask(folder, list(REQUESTS.values())) for kind, folder in folders.items()}


@pytest.fixture(params=list(CONFIGS))
def kind(request):
    return request.param


def raw(sentences):
    """Returns the bytes of a feed as a tensor."""
    return tf.constant([s.encode("utf-8", "surrogateescape") for s in sentences], tf.string)


def expect_equal_replies(answers, expected, kind, key):
    """Compares the replies of an export with the outputs of the translator."""
    contract = CONTRACT[key[0]].outputs
    for reply, record in zip(named(answers)[key], expected[kind, *key], strict=True):
        assert reply.get("error") is None
        assert set(reply["outputs"]) == set(contract)
        for name, output in contract.items():
            values, dtype = reply["outputs"][name], object if output.dtype == "string" else output.dtype
            found = np.array(values["values"], dtype).reshape(values["shape"])
            wanted = (record[name] if isinstance(record, dict) else getattr(record, name)).numpy()
            assert found.shape == wanted.shape, name
            if wanted.dtype == np.float32:
                wanted = np.maximum(wanted, np.finfo(np.float32).min)  # JSON has no infinity
                np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4, err_msg=name)
            elif output.dtype == "string":
                np.testing.assert_array_equal(np.vectorize(str.encode, otypes=[object])(found), wanted, err_msg=name)
            else:
                np.testing.assert_array_equal(found, wanted, err_msg=name)


# Replies


@pytest.mark.parametrize("signature", CONTRACT)
@pytest.mark.parametrize("name", ANSWERED)
def test_an_export_in_a_fresh_process_replies_like_the_translator(answered, expected, kind, signature, name):
    expect_equal_replies(answered[kind], expected, kind, (signature, name))


def test_an_export_passes_every_check_of_a_verification(answered, kind):
    assert not any(checks(answered[kind]).values())


def test_a_loaded_export_searches_as_its_translator_or_greedily(folders, translators):
    served, translator = load_exported(folders["subword"]), translators["subword"]
    sentences = ["Mi casa es roja.", "No."]
    assert (served.search, served.hypotheses) == (translator.search, BEAMS["subword"])
    found = [one.text for one in served.translate(sentences)]
    assert found == [one.text for one in translator.translate(sentences)]
    assert found == [one[0].text for one in served.translate_nbest(sentences)]
    search = replace(translator.search, beam_size=1)
    found = served.with_search(search).translate(sentences)
    assert [one.text for one in found] == [one.text for one in translator.with_search(search).translate(sentences)]
    with pytest.raises(ValueError, match=r"search: expected beam 3.*greedy.*received 'beam 4"):
        served.with_search(replace(search, beam_size=4))


# Assets


def test_the_assets_hold_the_tokenizers_and_the_weights_by_name(folders, translators, kind):
    translator, weights = translators[kind], read_weights(folders[kind])
    for name, variable in named_variables(translator.model):
        np.testing.assert_array_equal(weights.pop(name), variable.numpy(), err_msg=name)
    assert weights == {}
    for side, tokenizer in zip(SIDES, (translator.source_tokenizer, translator.target_tokenizer), strict=True):
        ids = load_tokenizer(folders[kind] / "assets" / side).encode(raw(FEEDS["a text"][0])).ids
        np.testing.assert_array_equal(ids, tokenizer.encode(raw(FEEDS["a text"][0])).ids)


def test_the_weights_of_an_ensemble_have_names_of_their_own(model):
    names = [name for name, _ in named_variables(Ensemble([model, model]))]
    assert len(set(names)) == 2 * len(model.variables)
    assert {"0/encoder/embedding/embeddings", "1/encoder/embedding/embeddings"} < set(names)


# Graph


def test_an_export_with_micro_batches_knows_its_number_of_hypotheses(folders):
    assert load_exported(folders["compact"]).hypotheses == BEAM_SIZE


def test_half_precision_takes_half_the_bytes_and_leaves_the_translator_as_it_was(folders, translators):
    written = sum(path.stat().st_size for path in (folders["compact"] / "variables").glob("variables.data-*"))
    assert 2 * translators["word"].model.count_params() <= written < 3 * translators["word"].model.count_params()
    exact, rounded = (translators[kind].model.variables for kind in ("word", "compact"))
    assert any((one.numpy() != other.numpy()).any() for one, other in zip(exact, rounded, strict=True))


def test_a_weight_too_large_for_half_precision_is_named(translators, tmp_path):
    model = build_model(TINY_MODEL, 200, 200)
    model.variables[0].assign(np.full(model.variables[0].shape, 7e4))
    word = translators["word"]
    large = ModelTranslator(word.source_tokenizer, word.target_tokenizer, model, search=word.search)
    with pytest.raises(ValueError, match=r"half_precision.*65504.*70000"):
        export(large, tmp_path / "model", config=ExportConfig(half_precision=True))
    assert not versions(tmp_path / "model")


# Serving


def test_the_embedded_server_answers_the_warm_up_requests_while_it_loads(folders, monkeypatch):
    seen, run = [], Servable.run

    def note(self, signature, inputs, seconds):
        (name,) = (name for name, one in self.signatures.items() if one is signature)
        seen.append((name, *map(len, inputs.values())))
        return run(self, signature, inputs, seconds)

    monkeypatch.setattr(Servable, "run", note)
    load_warm(folders["compact"]).close()
    sides = {name: len(signature.inputs) for name, signature in CONTRACT.items()}
    assert seen == [(name, *[rows] * sides[name]) for name in CONTRACT for rows in (1, LARGE)]


# TensorFlow 2.20


@pytest.mark.tf220
def test_tensorflow_2_20_loads_the_export_and_replies_the_same(python_of_serving, folders, expected):
    for kind, folder in folders.items():
        answers = ask(folder, list(REQUESTS.values()), python_of_serving)
        assert answers.libraries == {"tensorflow": "2.20.0", "tensorflow-text": "2.20.1"}
        assert not any(checks(answers).values())
        for signature in CONTRACT:
            for name in ANSWERED:
                expect_equal_replies(answers, expected, kind, (signature, name))
