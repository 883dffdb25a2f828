"""Exports with predictive local attention keep the contract: each row of an alignment sums to 1.

The weights of the contexts sum to less than 1; see ``PredictiveLocalAttention``.
"""

import numpy as np
import pytest
from combinations import COMBINATIONS
from tiny import randomise

from nmt_keras.config import UNK, SearchConfig
from nmt_keras.export import export, verify
from nmt_keras.export.verification import STRANGE
from nmt_keras.models.ensemble import Ensemble
from nmt_keras.models.seq2seq import build_model
from nmt_keras.translation.exported import ServedTranslator
from nmt_keras.translation.model_translator import ModelTranslator
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
def folder(request, translator, tmp_path_factory):
    """An export that replaces unknown words: one model, or an ensemble with windows of three widths."""
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
    return export(exported, tmp_path_factory.mktemp("models") / "local")


def replaces(texts):
    """Returns ``True`` if at least one of ``texts`` contains a word of the lexicon."""
    return any(word in text for text in texts for word in LEXICON.values())


def test_an_export_passes_every_check_of_a_verification(folder):
    found = verify(folder)
    assert not any(found.values()), found
    assert replaces(each.text for each in ServedTranslator(folder).translate(SENTENCES))


def test_every_row_of_an_export_s_alignments_sums_to_1(folder):
    translations = ServedTranslator(folder).translate(SENTENCES)
    for translation in translations:
        assert translation.alignment.shape == (len(translation.tokens), len(translation.source_tokens))
        assert (translation.alignment >= 0).all()
        np.testing.assert_allclose(translation.alignment.sum(axis=1), 1.0, rtol=0, atol=1e-5)
        for token, row in zip(translation.tokens, translation.alignment, strict=True):
            if token in LEXICON.values():
                assert LEXICON[translation.source_tokens[int(np.argmax(row[:-1]))]] == token
    assert replaces(translation.text for translation in translations)
