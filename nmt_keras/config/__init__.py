"""Configuration dataclasses. They are frozen, validated on construction, and stored with a run as JSON."""

from nmt_keras.config.checks import (
    choices,
    record_from,
    require,
    require_choice,
    require_types,
    without_removed,
)
from nmt_keras.config.corpus import CorpusConfig, FilterConfig, PairFilters
from nmt_keras.config.export import ExportConfig, MicroBatchingConfig
from nmt_keras.config.model import AttentionConfig, CellName, DecoderConfig, EncoderConfig, ModelConfig
from nmt_keras.config.recipe import Recipe
from nmt_keras.config.search import BATCHES_AT_ONCE, SearchConfig
from nmt_keras.config.tokenizer import END, PAD, START, UNK, TokenizerConfig
from nmt_keras.config.training import RunOptions, TrainConfig

__all__ = [
    "BATCHES_AT_ONCE",
    "END",
    "PAD",
    "START",
    "UNK",
    "AttentionConfig",
    "CellName",
    "CorpusConfig",
    "DecoderConfig",
    "EncoderConfig",
    "ExportConfig",
    "FilterConfig",
    "MicroBatchingConfig",
    "ModelConfig",
    "PairFilters",
    "Recipe",
    "RunOptions",
    "SearchConfig",
    "TokenizerConfig",
    "TrainConfig",
    "choices",
    "record_from",
    "require",
    "require_choice",
    "require_types",
    "without_removed",
]
