"""Signatures with predictive local attention keep the contract: each row of an alignment sums to 1.

The weights of the contexts sum to less than 1; see ``PredictiveLocalAttention``.
"""

import numpy as np
import pytest
import tensorflow as tf
from combinations import COMBINATIONS
from tiny import randomise

from nmt_keras.config import UNK, SearchConfig
from nmt_keras.export.signatures import signatures
from nmt_keras.export.verification import NOT_SERVED, STRANGE
from nmt_keras.models.ensemble import Ensemble
from nmt_keras.models.seq2seq import build_model
from nmt_keras.translation.model_translator import ModelTranslator
from nmt_keras.translation.records import Decoded
from nmt_keras.translation.translator import translations
from nmt_keras.translation.unknown_words import UnknownWords

pytestmark = pytest.mark.long

LEXICON = {"mi": "MY", "hermana": "SISTER", "libro": "BOOK", "cocina": "KITCHEN"}
"""Translations for unknown words. The target vocabulary has none of them."""
SENTENCES = [*STRANGE[:-1], "Mi hermana lee un libro en la cocina porque está muy cansada."]


@pytest.fixture(
    scope="module",
    params=[
        ["luong-local-p"],
        pytest.param(["luong-local-p", "luong-local-p-wide", "rnnsearch-local-p"], marks=pytest.mark.slow),
    ],
    ids=["one", "ensemble"],
)
def align(request, translator):
    """The signature of a translator that replaces unknown words: one model, or an ensemble of three windows."""
    texts = [translator.source_tokenizer, translator.target_tokenizer]
    sizes = [text.vocabulary_size for text in texts]
    models = []
    for seed, combination in enumerate(request.param):
        model = build_model(COMBINATIONS[combination], *sizes)
        randomise(model, seed)
        (bias,) = (variable for variable in model.variables if variable.shape == (sizes[1],))
        bias.assign_add(2.0 * np.eye(sizes[1])[UNK])  # makes unknown words frequent
        models.append(model)
    predictor = Ensemble(models) if len(models) > 1 else models[0]
    search = SearchConfig(max_tokens=13, replaces_unknown=True)
    exported = ModelTranslator(*texts, predictor, search=search, unknown_words=UnknownWords(LEXICON))
    return signatures(exported)["align"]


def test_tensorflow_serving_has_every_operation_and_an_empty_batch_is_answered(align):
    graph = align.get_concrete_function().graph.as_graph_def()
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    operations = {node.op for node in nodes} - {function.signature.name for function in graph.library.function}
    assert [*filter(NOT_SERVED.search, operations)] == []
    assert align(tf.constant([], tf.string))["alignment"].shape[0] == 0


def test_every_row_of_an_alignment_sums_to_1(align):
    found = translations(Decoded(**align(tf.constant(SENTENCES))))
    for translation in found:
        assert translation.alignment.shape == (len(translation.tokens), len(translation.source_tokens))
        assert (translation.alignment >= 0).all()
        np.testing.assert_allclose(translation.alignment.sum(axis=1), 1.0, rtol=0, atol=1e-5)
        for token, row in zip(translation.tokens, translation.alignment, strict=True):
            if token in LEXICON.values():
                assert LEXICON[translation.source_tokens[int(np.argmax(row[:-1]))]] == token
    assert any(word in translation.text for translation in found for word in LEXICON.values())
