"""Notebook 0: its classes equal the library's, and its searches agree with its model."""

import importlib.util
from itertools import count

import nbformat
import numpy as np
import pytest
import tensorflow as tf
from servers import ROOT
from tensors import assert_same, padded
from tiny import randomise

from nmt_keras.config import AttentionConfig, DecoderConfig, EncoderConfig, ModelConfig
from nmt_keras.corpus import Pair, split_pairs
from nmt_keras.corpus.sample import sample_pairs
from nmt_keras.models.seq2seq import build_model

NOTEBOOK = nbformat.read(ROOT / "notebooks" / "0-nmt-with-attention.ipynb", as_version=4)
CODE = {cell.id: cell.source for cell in NOTEBOOK.cells if cell.cell_type == "code"}
IMPORTS = "\n".join(line for line in CODE["setup"].splitlines() if line.startswith(("import ", "from ")))

V, W, E, U, A, L = 19, 23, 5, 7, 13, 11

SOURCES, TARGETS = [[2, 5, 11, 18, 3], [2, 3], [2, 17, 3]], [[2, 22, 9], [2], [2, 4, 13, 21, 6, 8]]


@pytest.fixture(scope="module")
def define(tmp_path_factory):
    """Executes cells as a module and returns it. AutoGraph needs the source of a module."""
    folder, numbers = tmp_path_factory.mktemp("cells"), count()

    def define(*sources, **names):
        path = folder / f"cells_{next(numbers)}.py"
        path.write_text("\n\n".join((IMPORTS, *sources)))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        vars(module).update(names)
        spec.loader.exec_module(module)
        return module

    return define


@pytest.fixture(scope="module")
def cells(define):
    return define(*(CODE[name] for name in ("encoder", "attention", "decoder", "model", "loss")))


@pytest.fixture(scope="module")
def build(cells):
    """Builds the notebook's model, with random weights."""

    def build(source_size, target_size, seed=4):
        encoder = cells.Encoder(source_size, embedding_size=E, units=U)
        decoder = cells.Decoder(target_size, embedding_size=E, units=2 * U, attention_units=A, maxout_units=L)
        model = cells.Translator(encoder, decoder)
        model(tf.constant([[2, 3]]), tf.constant([[2, 3]]))
        randomise(model, seed)
        return model

    return build


@pytest.fixture(scope="module")
def model(build):
    return build(V, W)


def copied(model):
    """Returns the library's model with the weights of the notebook's model."""
    config = ModelConfig(
        embedding_size=E,
        encoder=EncoderConfig(cell="gru-reset-after", units=U),
        attention=AttentionConfig(kind="additive", units=A),
        decoder=DecoderConfig(
            cell="gru-reset-after", units=2 * U, initial_state="backward", output_units=L, output_state="current"
        ),
        dropout=0.0,
    )
    library = build_model(config, V, W)

    def cell_values(cell, kernel, recurrent, bias):
        rows = cell.kernel.shape[0]
        context = [(cell.context_kernel, kernel[rows:])] if kernel.shape[0] > rows else []
        biases = [(cell.bias, bias[0]), (cell.recurrent_bias, bias[1])]
        return [(cell.kernel, kernel[:rows]), *context, (cell.recurrent, recurrent), *biases]

    encoder, decoder, attention = model.encoder, model.decoder, library.decoder.attention
    output = library.decoder.output_layer
    kernels = output.state_kernel, output.context_kernel, output.embedding_kernel
    values = [
        (library.encoder.embedding.embeddings, encoder.embedding.embeddings),
        *cell_values(library.encoder.forward_cells[0], *encoder.bidirectional.forward_layer.cell.weights),
        *cell_values(library.encoder.backward_cells[0], *encoder.bidirectional.backward_layer.cell.weights),
        (library.decoder.embedding.embeddings, decoder.embedding.embeddings),
        *zip(library.decoder.bridge.dense.weights, decoder.initial_state.weights, strict=True),
        (attention.score.query_kernel, decoder.attention.query.kernel),
        (attention.score.key_kernel, decoder.attention.key.kernel),
        (attention.score.score_vector, decoder.attention.energy.kernel[:, 0]),
        *cell_values(library.decoder.stack.cells[0], *decoder.cell.weights),
        *zip(kernels, tf.split(decoder.maxout.kernel, [kernel.shape[0] for kernel in kernels]), strict=True),
        (output.maxout_bias, decoder.maxout.bias),
        (output.output_kernel, decoder.logits.kernel),
        (output.output_bias, decoder.logits.bias),
    ]
    for variable, value in values:
        variable.assign(value)
    return library


def test_its_model_is_the_library_s(model):
    library = copied(model)
    assert library.count_params() == model.count_params()
    (source, _), (target, mask) = padded(SOURCES, 5), padded(TARGETS, 6)
    wanted = library((source, target))
    logits, weights = model(source, target)
    assert_same([logits[mask], weights[mask]], [wanted.logits[mask], wanted.alignment[mask]])


def test_its_loss_is_the_mean_over_tokens(cells, model):
    (source, _), (target, _) = padded(SOURCES, 5), padded(TARGETS, 6)
    labels, _ = padded([[*words[1:], 3] for words in TARGETS], 6)
    logits, _ = model(source, target)
    losses = [
        -np.log(np.exp(logits[row, i, label]) / np.sum(np.exp(logits[row, i])))
        for row, words in enumerate(TARGETS)
        for i, label in enumerate([*words[1:], 3])
    ]
    np.testing.assert_allclose(cells.masked_loss(labels, logits), np.mean(losses), rtol=1e-5)


def test_its_split_is_the_library_s(define):
    # pairs form a group if they share a sentence on either side; case, accents and punctuation do not count
    pairs = [("Sí.", "Yes."), ("si", "Sure."), ("Claro.", "sure"), ("¡CLARO!", "Of course."), ("No.", "No.")]
    pairs += [tuple(pair) for pair in sample_pairs()[:2000]]
    found = define(CODE["split"], pairs=pairs).parts
    wanted = split_pairs([Pair(*pair) for pair in pairs], key_side="target")
    assert found == {part: [tuple(pair) for pair in wanted[part]] for part in found}
    assert min(map(len, found.values())) > 10


def test_a_text_becomes_words_and_the_same_text_again(define):
    sentences = ['"Tom\'s here at 5, or not?" he said.', "What? A 10% T-shirt!", ""]
    found = define(CODE["text"], CODE["vocabulary"], parts={"train": [(text, text) for text in sentences]})
    words = ["[START]", '"', "Tom's", "here", "at", "5", ",", "or", "not", "?", '"', "he", "said", ".", "[END]"]
    ids = found.target_text(tf.constant(sentences))
    assert [found.english[i] for i in ids[0]] == words
    assert [text.decode() for text in found.detokenize(ids[:, 1:]).numpy()] == sentences


@pytest.fixture(scope="module")
def search(define, build):
    """Defines the notebook's searches for a model with random weights."""
    pairs = [tuple(pair) for pair in sample_pairs()[:30]]
    text = define(CODE["text"], parts={"train": pairs})
    model = build(text.source_text.vocabulary_size(), text.target_text.vocabulary_size())
    end = text.target_text.get_vocabulary().index("[END]")
    model.decoder.logits.bias.assign_add(tf.one_hot(end, text.target_text.vocabulary_size()) * 8.0)

    def search(beam_size):
        assert CODE["beam"].startswith("K = 5\n")
        beam = CODE["beam"].replace("K = 5", f"K = {beam_size}")
        names = {"source_text": text.source_text, "target_text": text.target_text, "standardize": text.standardize}
        return define(CODE["vocabulary"], CODE["greedy"], beam, model=model, **names)

    return search


SENTENCES = tf.constant([source for source, _ in sample_pairs()[:7]] + ["", "Zyx abc?"])


@pytest.mark.long
def test_a_beam_of_one_is_greedy(search):
    found = search(1)
    greedy, beam = found.greedy(SENTENCES), found.beam(SENTENCES)
    np.testing.assert_array_equal(greedy["translation"], beam["translations"][:, 0])
    assert greedy["attention"].shape == (9, greedy["target_tokens"].shape[1], greedy["source_tokens"].shape[1])
    np.testing.assert_allclose(tf.reduce_sum(greedy["attention"], axis=-1), 1.0, rtol=1e-5)
