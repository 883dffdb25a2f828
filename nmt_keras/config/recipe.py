"""A recipe: the complete configuration of a system."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field, replace

from nmt_keras.config.checks import record_from, require
from nmt_keras.config.corpus import CorpusConfig
from nmt_keras.config.model import ModelConfig
from nmt_keras.config.search import SearchConfig
from nmt_keras.config.tokenizer import TokenizerConfig
from nmt_keras.config.training import TrainConfig


@dataclass(frozen=True)
class Recipe:
    """A system: everything that makes a run, except the corpus and the time."""

    name: str
    """What the system is called, in the name of its run directory too."""
    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    """What of a corpus is taken, and how it is split."""
    source: TokenizerConfig = field(default_factory=TokenizerConfig)
    """How source strings become ids."""
    target: TokenizerConfig = field(default_factory=TokenizerConfig)
    """How target strings become ids."""
    model: ModelConfig = field(default_factory=ModelConfig)
    """Encoder, attention and decoder."""
    train: TrainConfig = field(default_factory=TrainConfig)
    """How the model is trained."""
    search: SearchConfig = field(default_factory=SearchConfig)
    """How translations are searched for."""

    def __post_init__(self) -> None:
        decoder = self.model.decoder
        require(
            self.train.segmentation_alpha is None or "subword" in (self.source.kind, self.target.kind),
            "TrainConfig.segmentation_alpha",
            "None where neither text is a subword text: words are not cut",
            self.train.segmentation_alpha,
        )
        written = {
            "SearchConfig.max_tokens": self.search.max_tokens,
            "TokenizerConfig.max_tokens of the target": self.target.max_tokens,
            "TrainConfig.max_tokens": self.train.max_tokens,
        }
        for name, tokens in written.items():
            require(
                decoder.order != "self-attention" or tokens <= decoder.max_positions,
                name,
                f"DecoderConfig.max_positions ({decoder.max_positions}), all that the decoder can write, at the most",
                tokens,
            )
        rows = self.model.attention.max_source_positions
        require(
            self.model.attention.kind != "location" or self.train.max_tokens <= rows,
            "TrainConfig.max_tokens",
            f"AttentionConfig.max_source_positions ({rows}), all that location attention can look at, at the most",
            self.train.max_tokens,
        )
        attention = self.model.attention.kind
        require(
            not self.search.replaces_unknown or attention not in ("fixed", "none"),
            "SearchConfig.replaces_unknown",
            f"False with AttentionConfig.kind {attention!r}, which looks at no word in particular",
            self.search.replaces_unknown,
        )

    def scaled(self, width: float) -> Recipe:
        """The same system with a model of ``width`` times the size in every layer, under a name that says so."""
        return replace(self, name=f"{self.name}-x{width:g}", model=self.model.scaled(width))

    def to_json(self) -> str:
        """The recipe as a JSON object, one key per field."""
        return json.dumps(dataclasses.asdict(self), indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str, where: str = "recipe") -> Recipe:
        """The inverse of ``to_json``. Raises ValueError naming ``where`` and the unknown or missing field."""
        try:
            return record_from(cls, json.loads(text))
        except (TypeError, json.JSONDecodeError) as error:
            raise ValueError(
                f"{where}: expected a recipe as JSON with the fields of {cls.__name__}; {error}."
            ) from error
