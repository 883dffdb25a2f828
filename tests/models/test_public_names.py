"""The public names of ``nmt_keras``."""

import pytest

import nmt_keras


def test_the_package_offers_the_names_that_people_import():
    for name in ("BahdanauAttention", "Encoder", "Decoder", "Seq2Seq"):
        assert getattr(nmt_keras, name).__name__ == name
    assert "tutorial" in nmt_keras.recipes.RECIPES
    assert set(nmt_keras.__all__) <= set(dir(nmt_keras))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="Transformer"):
        _ = nmt_keras.Transformer
