"""The public names of ``nmt_keras``."""

import pytest

import nmt_keras
from nmt_keras.layers.attention import BahdanauAttention
from nmt_keras.models.encoder import Encoder
from nmt_keras.models.recurrent_decoder import Decoder
from nmt_keras.models.seq2seq import Seq2Seq


def test_the_package_offers_the_names_that_people_import():
    assert nmt_keras.BahdanauAttention is BahdanauAttention
    assert nmt_keras.Encoder is Encoder
    assert nmt_keras.Decoder is Decoder
    assert nmt_keras.Seq2Seq is Seq2Seq
    assert "tutorial" in nmt_keras.recipes.RECIPES
    assert set(nmt_keras.__all__) <= set(dir(nmt_keras))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="Transformer"):
        _ = nmt_keras.Transformer
