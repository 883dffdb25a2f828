"""Recipe: the complete configuration of a system."""

import dataclasses
import json
from dataclasses import dataclass, field, replace
from typing import Self

from nmt_keras.config.checks import record_from, require, require_types
from nmt_keras.config.corpus import CorpusConfig, PairFilters
from nmt_keras.config.model import ModelConfig
from nmt_keras.config.search import SearchConfig
from nmt_keras.config.tokenizer import TokenizerConfig
from nmt_keras.config.training import TrainConfig


@dataclass(frozen=True)
class Recipe:
    """Complete configuration of a system, except the files of the corpus."""

    name: str
    """Name of the system, used in the name of its run directory."""
    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    """Selection and split of the corpus."""
    source: TokenizerConfig = field(default_factory=TokenizerConfig)
    """Source tokenizer."""
    target: TokenizerConfig = field(default_factory=TokenizerConfig)
    """Target tokenizer."""
    model: ModelConfig = field(default_factory=ModelConfig)
    """Encoder, attention and decoder."""
    train: TrainConfig = field(default_factory=TrainConfig)
    """Configuration of training."""
    search: SearchConfig = field(default_factory=SearchConfig)
    """Configuration of the search."""
    filters: PairFilters = field(default_factory=PairFilters)
    """Filters of the training pairs."""

    def __post_init__(self) -> None:
        require_types(self)
        decoder, attention = self.model.decoder, self.model.attention
        require(bool(self.name.strip()) and "/" not in self.name, "Recipe.name", "a name without /", self.name)
        for name, tokens in {
            "SearchConfig.max_tokens": self.search.max_tokens,
            "TokenizerConfig.max_tokens of the target": self.target.max_tokens,
            "TrainConfig.max_tokens": self.train.max_tokens,
        }.items():
            require(
                decoder.order != "self-attention" or tokens <= decoder.max_positions,
                name,
                f"at most DecoderConfig.max_positions ({decoder.max_positions})",
                tokens,
            )
        require(
            attention.kind != "location" or self.train.max_tokens <= attention.max_source_positions,
            "TrainConfig.max_tokens",
            f"at most AttentionConfig.max_source_positions ({attention.max_source_positions})",
            self.train.max_tokens,
        )
        require(
            not self.search.replaces_unknown or attention.has_scores,
            "SearchConfig.replaces_unknown",
            f"False with AttentionConfig.kind {attention.kind!r}",
            self.search.replaces_unknown,
            "The replacement of unknown words requires an alignment.",
        )

    def scaled(self, width: float) -> Self:
        """Returns the recipe with a model scaled by ``width``. The new name ends in ``-x`` and ``width``."""
        return replace(self, name=f"{self.name}-x{width:g}", model=self.model.scaled(width))

    def to_json(self) -> str:
        """Returns the recipe as a JSON object with one key per field."""
        return json.dumps(dataclasses.asdict(self), indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str, where: str = "recipe") -> Self:
        """Returns a recipe written by ``to_json``. Any other text raises a ValueError that names ``where``."""
        try:
            return record_from(cls, json.loads(text))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{where}: {error}") from error
