"""Strings in, translations out: the same numbers however they are computed, and a clear refusal of anything else."""

import subprocess
import sys
from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf

import nmt_keras
from nmt_keras.config import AttentionConfig, DecoderConfig, EncoderConfig, ModelConfig, SearchConfig, TokenizerConfig
from nmt_keras.export import export
from nmt_keras.models.seq2seq import build_model
from nmt_keras.text import END, START, fit_tokenizer
from nmt_keras.translation.exported import ServedTranslator
from nmt_keras.translation.model_translator import ModelTranslator
from nmt_keras.translation.records import Decoded

SENTENCES = ["¿Dónde está mi hermana?", "", "No.", "😀 🇪🇸", "  ", "palabra " * 1250, "¡Hola! ¿Qué tal?", "x" * 10_000]


@pytest.fixture(scope="module")
def version(translator, tmp_path_factory):
    """The translator, exported."""
    return export(translator, tmp_path_factory.mktemp("saved_models") / "tiny")


@pytest.fixture(scope="module")
def served(version):
    return ServedTranslator(version)


@pytest.fixture
def eagerly():
    """Every tf.function runs as plain Python."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


def expect_equal(found, expected):
    """Compares translations: strings exactly, numbers to 1e-5."""
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        numbers = {"score", "log_prob", "alignment"}
        exact = [field for field in one._fields if field not in numbers]
        assert [getattr(one, field) for field in exact] == [getattr(other, field) for field in exact]
        assert (one.score, one.log_prob) == pytest.approx((other.score, other.log_prob), abs=1e-5)
        np.testing.assert_allclose(one.alignment, other.alignment, rtol=0, atol=1e-5)


def test_eager_execution_gives_the_numbers_of_the_compiled_function(translator, eagerly):
    eager = translator.translate(SENTENCES)
    tf.config.run_functions_eagerly(False)
    expect_equal(eager, translator.translate(SENTENCES))


@pytest.mark.saved_model
def test_a_reloaded_savedmodel_gives_the_numbers_of_the_translator(translator, served):
    expect_equal(served.translate(SENTENCES), translator.translate(SENTENCES))


@pytest.mark.saved_model
def test_both_name_their_outputs_alike(translator, served):
    text = tf.constant(["hola"])
    assert served.decode(text)._fields == translator.decode(text)._fields == Decoded._fields


def test_translations_come_in_the_order_of_the_sentences(translator):
    alone = [translator.translate([sentence])[0] for sentence in SENTENCES]
    expect_equal(translator.translate(SENTENCES), alone)
    expect_equal(translator.translate(SENTENCES[::-1]), alone[::-1])
    assert len({translation.text for translation in alone}) > 3  # so that an order can be seen


@pytest.mark.parametrize("batch_size", [1, 3, 8, 1000])
def test_batch_size_changes_no_translation(translator, batch_size):
    expect_equal(translator.translate(SENTENCES, batch_size=batch_size), translator.translate(SENTENCES))


@pytest.mark.saved_model
def test_no_sentences_give_no_translations(translator, served):
    assert translator.translate([]) == served.translate([]) == []


def test_an_empty_batch_has_outputs_of_no_rows(translator):
    for output in translator.decode(tf.zeros([0], tf.string)):
        assert output.shape[0] == 0


@pytest.mark.parametrize("sentence", ["", " ", "\t\n", "\u00a0\u2003"])
def test_a_blank_sentence_is_its_end_alone(translator, sentence):
    (found,) = translator.translate([sentence])
    assert found.source_tokens == [""]
    assert not found.truncated
    np.testing.assert_allclose(found.alignment, np.ones([len(found.tokens), 1]), atol=1e-6)


def test_source_tokens_are_what_the_user_wrote(translator):
    (found,) = translator.translate(["¿Qué 😀, TOM?"])
    assert found.source_tokens == ["¿", "Qué", "😀", ",", "TOM", "?", ""]


def test_a_surrogate_without_its_partner_is_answered(translator):
    (found,) = translator.translate(["hola \ud83d amigo"])
    assert found.source_tokens[0] == "hola"
    assert found.source_tokens[-2:] == ["amigo", ""]


def test_long_input_is_cut_at_max_tokens_and_says_so(translator):
    (found,) = translator.translate(["palabra " * 1250])
    assert len(found.source_tokens) == translator.source_tokenizer.config.max_tokens
    assert found.truncated


def test_alignments_have_a_row_per_token_that_sums_to_one(translator):
    for found in translator.translate(SENTENCES):
        assert found.alignment.shape == (len(found.tokens), len(found.source_tokens))
        np.testing.assert_allclose(found.alignment.sum(axis=1), 1.0, atol=1e-5)
        assert (found.alignment >= 0).all()


def test_score_is_log_prob_per_token(translator):
    for found in translator.translate(SENTENCES):
        assert found.score == pytest.approx(found.log_prob / len(found.tokens), abs=1e-5)
        assert found.log_prob < 0


def test_log_prob_is_that_of_teacher_forcing_over_the_translation(translator):
    (found,) = translator.translate(["¿Dónde está mi hermana?"])
    source = translator.source_tokenizer.encode(tf.constant(["¿Dónde está mi hermana?"])).ids
    text = translator.target_tokenizer
    surfaces = text.surfaces(tf.range(text.vocabulary_size)[tf.newaxis])[0].numpy().tolist()
    ids = [END if token == "" else surfaces.index(token.encode()) for token in found.tokens]
    output = translator.model((source, tf.constant([[START, *ids[:-1]]])))
    log_probs = tf.nn.log_softmax(output.logits)[0].numpy()
    assert found.log_prob == pytest.approx(sum(log_probs[i, token] for i, token in enumerate(ids)), abs=1e-4)
    np.testing.assert_allclose(found.alignment, output.alignment[0].numpy(), atol=1e-5)


def with_search(translator, **changes):
    """The translator with some other settings of its search."""
    return translator.with_search(replace(translator.search, **changes))


def test_a_hypothesis_ends_at_max_tokens(translator):
    assert max(len(found.tokens) for found in with_search(translator, max_tokens=3).translate(SENTENCES)) == 3


def test_a_hypothesis_has_at_most_twice_the_source_tokens_and_ten(translator):
    found = with_search(translator, max_tokens=80).translate(["", "No.", "¿Dónde está mi hermana?"])
    limits = [2 * len(translation.source_tokens) + 10 for translation in found]
    lengths = [len(translation.tokens) for translation in found]
    assert all(length <= limit for length, limit in zip(lengths, limits, strict=True))
    assert any(length == limit for length, limit in zip(lengths, limits, strict=True))  # so that the limit is seen


def test_draws_are_those_of_the_seed(translator):
    three, four = (with_search(translator, temperature=1.0, seed=seed) for seed in (3, 4))
    first, again, other = (each.translate(SENTENCES[:4]) for each in (three, three, four))
    expect_equal(first, again)
    assert [found.tokens for found in first] != [found.tokens for found in other]


def test_hardly_any_temperature_draws_the_most_probable_tokens(translator):
    expect_equal(with_search(translator, temperature=1e-6).translate(SENTENCES), translator.translate(SENTENCES))


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_draws_depend_on_the_sentence_and_not_on_its_batch_mates(translator, precision):
    drawing = with_search(translator, temperature=1.0, top_k=20, top_p=0.9, precision=precision)
    together = drawing.translate(SENTENCES)
    expect_equal(drawing.translate(SENTENCES[::-1], batch_size=3), together[::-1])


# Beam search and n-best lists


def test_another_search_is_another_translator_on_the_same_weights(translator):
    beam = translator.with_search(SearchConfig(beam_size=3))
    assert beam.model is translator.model
    assert (beam.search.beam_size, translator.search.beam_size) == (3, 1)


@pytest.fixture(scope="module")
def beam(translator):
    """The translator with a beam and all that ranks it."""
    return with_search(
        translator, beam_size=4, coverage_beta=0.05, length_normalisation="gnmt", length_alpha=0.7, unk_allowed=False
    )


@pytest.mark.parametrize("batch_size", [1, 3, 1000])
def test_batch_size_changes_no_translation_of_a_beam(beam, batch_size):
    expect_equal(beam.translate(SENTENCES, batch_size), [beam.translate([sentence])[0] for sentence in SENTENCES])


def test_eager_beam_search_gives_the_numbers_of_the_compiled_function(beam, eagerly):
    eager = beam.translate_nbest(SENTENCES[:4])
    tf.config.run_functions_eagerly(False)
    for one, other in zip(eager, beam.translate_nbest(SENTENCES[:4]), strict=True):
        expect_equal(one, other)


@pytest.fixture(scope="module")
def in_bfloat16(translator):
    return with_search(translator, beam_size=4, precision="bfloat16")


def test_a_search_in_bfloat16_finds_nearly_the_same(translator, in_bfloat16):
    exact = with_search(translator, beam_size=4)
    pairs = list(zip(in_bfloat16.translate(SENTENCES), exact.translate(SENTENCES), strict=True))
    same = [(near, found) for near, found in pairs if near.tokens == found.tokens]
    assert same
    for near, found in same:
        assert near.score == pytest.approx(found.score, abs=0.1)
        np.testing.assert_allclose(near.alignment, found.alignment, atol=0.1)
    assert any(near.score != found.score for near, found in same)


def test_given_translations_are_scored_in_float32(translator, in_bfloat16):
    assert in_bfloat16.score(["No."], ["Where is my sister?"]) == translator.score(["No."], ["Where is my sister?"])


def test_eager_search_in_bfloat16_gives_the_numbers_of_the_compiled_function(in_bfloat16, eagerly):
    eager = in_bfloat16.translate(SENTENCES[:4])
    tf.config.run_functions_eagerly(False)
    expect_equal(eager, in_bfloat16.translate(SENTENCES[:4]))


@pytest.mark.saved_model
def test_an_export_searches_in_bfloat16(in_bfloat16, tmp_path):
    served = ServedTranslator(export(in_bfloat16, tmp_path / "quick"))
    for found, wanted in zip(served.translate_nbest(SENTENCES), in_bfloat16.translate_nbest(SENTENCES), strict=True):
        expect_equal(found, wanted)


def test_the_first_of_an_n_best_list_is_the_translation(beam):
    lists = beam.translate_nbest(SENTENCES)
    assert [len(each) for each in lists] == [4] * len(SENTENCES)
    best = beam.translate(SENTENCES)
    found = [each[0].score for each in lists]
    np.testing.assert_allclose(found, [translation.score for translation in best], atol=1e-5)
    assert [each[0].text for each in lists] == [translation.text for translation in best]


def test_an_n_best_list_is_ordered_and_holds_no_translation_twice(beam):
    for each in beam.translate_nbest(SENTENCES):
        ended = [translation.score for translation in each if translation.tokens[-1] == ""]
        cut = [translation.score for translation in each if translation.tokens[-1] != ""]
        assert [translation.score for translation in each] == sorted(ended, reverse=True) + sorted(cut, reverse=True)
        assert len({tuple(translation.tokens) for translation in each}) == len(each)


def test_n_best_bounds_the_list(translator):
    (found,) = with_search(translator, beam_size=4, n_best=2).translate_nbest(["No."])
    assert len(found) == 2


@pytest.mark.parametrize("unk_allowed", [True, False])
def test_a_list_is_shorter_where_there_are_no_more_translations(translator, unk_allowed):
    wide = with_search(translator, beam_size=300, max_tokens=1, unk_allowed=unk_allowed)
    (found,) = wide.translate_nbest(["No."])
    # one token each: all but PAD and START, and UNK where it is not allowed
    assert len(found) == translator.target_tokenizer.vocabulary_size - 2 - (not unk_allowed)
    assert ("⁇" in [translation.tokens[0] for translation in found]) == unk_allowed
    assert wide.decode_nbest(tf.constant(["No."])).lengths.shape == (1, 300)


def test_n_best_outputs_are_as_wide_as_the_request_needs(beam):
    found = beam.decode_nbest(tf.constant(SENTENCES[:3]))
    b, k, t = found.tokens.shape
    assert (b, k, t) == (3, 4, int(tf.reduce_max(found.lengths)))
    assert found.alignment.shape == (3, 4, t, int(tf.reduce_max(found.source_lengths)))
    assert found.translations.shape == found.scores.shape == found.log_probs.shape == found.lengths.shape == (3, 4)


def test_a_translation_has_at_least_min_tokens(translator):
    found = with_search(translator, beam_size=3, min_tokens=9, max_tokens=11, length_alpha=0.0).translate_nbest(
        ["", "No."]
    )
    assert {len(translation.tokens) for each in found for translation in each} <= {9, 10, 11}


# LogLikelihood scoring


def test_a_score_is_the_log_probability_under_teacher_forcing(translator):
    sources, targets = SENTENCES[:4], ["Where is my sister?", "No.", "", "Tom"]
    for source, target, found in zip(sources, targets, translator.score(sources, targets), strict=True):
        ids = translator.target_tokenizer.encode(tf.constant([target])).ids
        previous = tf.concat([[[START]], ids[:, :-1]], axis=1)
        output = translator.model((translator.source_tokenizer.encode(tf.constant([source])).ids, previous))
        wanted = tf.gather(tf.nn.log_softmax(output.logits), ids, batch_dims=2)[0].numpy()
        np.testing.assert_allclose(found.token_log_probs, wanted, atol=1e-4)
        assert found.log_prob == pytest.approx(wanted.sum(), abs=1e-4)
        assert len(found.tokens) == len(wanted)
        assert not found.truncated


def test_batch_size_and_order_change_no_score(translator):
    sources, targets = SENTENCES, ["No.", "", "Where?", "my sister", "x " * 100, "Hello!", "a b c", "?"]
    together = translator.score(sources, targets)
    alone = [translator.score([source], [target])[0] for source, target in zip(sources, targets, strict=True)]
    for one, other in zip(together, alone, strict=True):
        assert one.tokens == other.tokens
        np.testing.assert_allclose(one.token_log_probs, other.token_log_probs, atol=1e-5)
    assert [found.truncated for found in together] == [False] * 4 + [True, True] + [False] * 2
    assert translator.score([], []) == []


def test_an_empty_translation_is_scored_by_its_end(translator):
    (found,) = translator.score(["No."], [""])
    assert found.tokens == [""]
    assert found.token_log_probs == pytest.approx([found.log_prob])


def test_a_source_without_a_target_is_refused(translator):
    with pytest.raises(ValueError, match=r"sources, targets: .*\[2, 1\]"):
        translator.score(["hola", "adiós"], ["hello"])
    with pytest.raises(TypeError, match=r"targets: "):
        translator.score(["hola"], "hello")


# Completion


def test_a_translation_goes_on_from_its_beginning(beam, pairs):
    begun = " ".join(pairs[0].target.split()[:2])
    first, free = beam.complete(SENTENCES[:2], [begun, ""])
    wanted = [token for token in beam.score(["x"], [begun])[0].tokens if token]
    assert len(wanted) > 1
    assert first.tokens[: len(wanted)] == wanted
    assert first.tokens != beam.translate(SENTENCES[:1])[0].tokens
    expect_equal([free], beam.translate([SENTENCES[1]]))


def test_a_beginning_longer_than_a_translation_may_be_is_kept_whole(beam, pairs):
    begun = " ".join(pair.target for pair in pairs)
    wanted = beam.score(["x"], [begun])[0].tokens[:-1]
    assert len(wanted) > beam.search.max_tokens
    drawing = with_search(beam, beam_size=1, n_best=None, temperature=1.0)
    for translator in (beam, drawing):
        (found,) = translator.complete(["No."], [begun])
        assert found.tokens[: len(wanted)] == wanted
        assert found.truncated  # the beginning was longer than the model writes


def test_setting_the_random_seed_leaves_a_subword_translator_as_it_is(pairs):
    config = TokenizerConfig("subword", 367)
    source = fit_tokenizer(config, [pair.source for pair in pairs])
    target = fit_tokenizer(config, [pair.target for pair in pairs])
    sizes = ModelConfig(3, EncoderConfig(units=5), AttentionConfig(units=11), DecoderConfig(units=7, output_units=13))
    model = build_model(sizes, source.vocabulary_size, target.vocabulary_size)
    translator = ModelTranslator(source, target, model, SearchConfig(max_tokens=5))
    before = translator.translate(SENTENCES[:2])
    keras.utils.set_random_seed(1)
    expect_equal(translator.translate(SENTENCES[:2]), before)


@pytest.mark.parametrize("sentences", ["hola", b"hola", ["hola", None], [b"hola"], [["hola"]], None, 7, iter(["hola"])])
def test_what_is_no_list_of_strings_is_refused(translator, sentences):
    with pytest.raises(TypeError, match=r"^sentences: "):
        translator.translate(sentences)


@pytest.mark.parametrize("batch_size", [0, -1])
def test_a_batch_of_no_sentence_is_refused(translator, batch_size):
    with pytest.raises(ValueError, match=rf"batch_size: expected at least 1, received {batch_size}"):
        translator.translate(["hola"], batch_size=batch_size)


def test_a_savedmodel_without_align_is_refused_by_name(tmp_path):
    module = tf.Module()
    module.shout = tf.function(tf.strings.upper, input_signature=[tf.TensorSpec([None], tf.string)])
    tf.saved_model.save(module, str(tmp_path), signatures={"serving_default": module.shout})
    with pytest.raises(ValueError, match=r"'align'.*\['serving_default'\]"):
        ServedTranslator(tmp_path)


@pytest.mark.saved_model
def test_what_an_export_lacks_is_refused_by_name(served):
    for ask, name in (
        (lambda: served.translate_nbest(["hola"]), "beam"),
        (lambda: served.score(["a"], ["b"]), "score"),
    ):
        if name not in served.loaded.signatures:
            with pytest.raises(ValueError, match=rf"signature '{name}', received one with \['align'"):
                ask()


def test_a_run_loads_in_one_call(run_folder, pairs):
    found = nmt_keras.load(run_folder).translate([pairs[0].source, ""])
    assert [type(translation.text) for translation in found] == [str, str]


@pytest.mark.saved_model
def test_an_exported_version_loads_in_one_call(version, translator):
    expect_equal(nmt_keras.load(str(version)).translate(SENTENCES), translator.translate(SENTENCES))


@pytest.mark.saved_model
def test_a_folder_of_versions_loads_the_newest(translator, tmp_path):
    (tmp_path / "9").mkdir()
    assert export(translator, tmp_path).name == "10"
    expect_equal(nmt_keras.load(tmp_path).translate(["hola"]), translator.translate(["hola"]))


def test_a_path_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"path: .*nowhere"):
        nmt_keras.load(tmp_path / "nowhere")


def test_a_folder_that_holds_neither_says_what_it_holds(tmp_path):
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(ValueError, match=r"recipe\.json.*saved_model\.pb.*holds \['notes\.txt'\]"):
        nmt_keras.load(tmp_path)


def test_a_file_is_neither_run_nor_version(tmp_path):
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(ValueError, match="holds a file"):
        nmt_keras.load(tmp_path / "notes.txt")


def test_a_run_without_checkpoint_says_what_to_do(run_folder, tmp_path):
    for name in ("source", "target"):
        (tmp_path / name).symlink_to(run_folder / name)
    (tmp_path / "recipe.json").write_text((run_folder / "recipe.json").read_text())
    with pytest.raises(FileNotFoundError, match=r"expected a checkpoint under best/ or last/.*Train the run first"):
        nmt_keras.load(tmp_path)


@pytest.mark.saved_model
def test_an_exported_version_loads_without_the_code_that_trained_it(version):
    program = (
        "import sys, nmt_keras; nmt_keras.load(sys.argv[1]).translate(['No.']); "
        "print([name for name in ('training', 'models.seq2seq', 'models.encoder', 'models.decoder', 'corpus', 'runs') "
        "if f'nmt_keras.{name}' in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program, version], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stderr[-2000:]
