"""The registries of the builder and the choices of the configuration."""

from dataclasses import replace
from typing import get_args, get_type_hints

import numpy as np
import pytest
from combinations import COMBINATIONS
from tiny import TINY_MODEL

from nmt_keras.config import AttentionConfig, DecoderConfig, EncoderConfig, choices
from nmt_keras.config.model import AttentionKind
from nmt_keras.layers import cells
from nmt_keras.models import builder, seq2seq

REGISTRIES = {
    (EncoderConfig, "kind"): builder.ENCODERS,
    (EncoderConfig, "cell"): cells.CELLS,
    (AttentionConfig, "span"): builder.SPANS,
    (DecoderConfig, "order"): builder.DECODERS,
    (DecoderConfig, "cell"): cells.CELLS,
    (DecoderConfig, "initial_state"): builder.BRIDGES,
    (DecoderConfig, "output"): builder.OUTPUT_LAYERS,
}


@pytest.mark.parametrize("field", REGISTRIES, ids=lambda field: f"{field[0].__name__}.{field[1]}")
def test_a_registry_has_the_choices_of_its_configuration_field(field):
    kind, name = field
    literal, *_ = get_args(get_type_hints(kind)[name]) or [None]
    assert set(REGISTRIES[field]) == set(get_args(literal) or choices(kind)[name])


def test_the_registries_of_attention_have_the_kinds_of_the_configuration():
    assert {*builder.SCORES, *builder.FIXED} == set(get_args(AttentionKind))


SCHEMES = {scheme: replace(TINY_MODEL, initializer=scheme) for scheme in ("bahdanau", "uniform")}


@pytest.mark.parametrize("config", [*COMBINATIONS.values(), *SCHEMES.values()], ids=[*COMBINATIONS, *SCHEMES])
def test_no_two_matrices_begin_with_the_same_numbers(config):
    matrices = [w.numpy() for w in seq2seq.build_model(config, 19, 23).trainable_variables if len(w.shape) == 2]
    signs = [str(np.sign(w.flat[:40])) for w in matrices if w.size >= 40]
    assert len(signs) == len({*signs}) > 3
