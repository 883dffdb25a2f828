"""Exports with predictive local attention keep the contract: each row of an alignment sums to 1.

The weights of the contexts sum to less than 1; see ``PredictiveLocalAttention``.
"""

import numpy as np
import pytest
from combinations import COMBINATIONS
from servers import running_server
from tiny import randomise

from nmt_keras.config import SearchConfig
from nmt_keras.export import export, verify
from nmt_keras.export.verification import STRANGE
from nmt_keras.models.ensemble import Ensemble
from nmt_keras.models.seq2seq import build_model
from nmt_keras.translation.exported import ServedTranslator
from nmt_keras.translation.model_translator import ModelTranslator
from serve.conformance.__main__ import main

pytestmark = [pytest.mark.saved_model, pytest.mark.server]

LOCAL = {
    "narrow": ["luong-local-p"],
    "wide": ["rnnsearch-local-p"],
    "ensemble": ["luong-local-p", "luong-local-p-wide", "rnnsearch-local-p"],
}
"""The models of each export, by the names of their configurations."""
SENTENCES = [*STRANGE[:-1], "Mi hermana lee un libro en la cocina porque está muy cansada."]


@pytest.fixture(scope="module")
def folders(translator, tmp_path_factory):
    """The folders of the exports."""
    folders, exports = {}, tmp_path_factory.mktemp("models")
    texts = [translator.source_tokenizer, translator.target_tokenizer]
    for name, combinations in LOCAL.items():
        models = []
        for seed, combination in enumerate(combinations):
            model = build_model(COMBINATIONS[combination], *(text.vocabulary_size for text in texts))
            randomise(model, seed)
            models.append(model)
        predictor = Ensemble(models) if len(models) > 1 else models[0]
        translator = ModelTranslator(*texts, predictor, search=SearchConfig(max_tokens=13))
        folders[name] = export(translator, exports / name)
    return folders


@pytest.mark.parametrize("name", LOCAL)
def test_an_export_passes_every_check_of_a_verification(folders, name):
    found = verify(folders[name])
    assert found.passed, str(found)


@pytest.mark.parametrize("name", LOCAL)
def test_every_row_of_an_export_s_alignments_sums_to_1(folders, name):
    for translation in ServedTranslator(folders[name]).translate(SENTENCES):
        assert translation.alignment.shape == (len(translation.tokens), len(translation.source_tokens))
        assert (translation.alignment >= 0).all()
        np.testing.assert_allclose(translation.alignment.sum(axis=1), 1.0, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", LOCAL)
def test_a_server_of_an_export_passes_every_check_of_conformance(folders, name, capsys):
    with running_server(folders[name].parents[1]) as served, pytest.raises(SystemExit) as done:
        main(["--url", served.rest, "--model", name, "--grpc", served.rpc.removeprefix("grpc://")])
    lines = capsys.readouterr().out.splitlines()[:-1]
    assert [line for line in lines if not line.startswith("ok ")] == []
    assert {"ok    alignment", "ok    gRPC: predictions"} < set(lines)
    assert done.value.code == 0
