"""Models, tokenizers and searches that the JavaScript engine can compute."""

from operator import attrgetter
from types import SimpleNamespace

from nmt_keras.config import ModelConfig, SearchConfig, TokenizerConfig

_CELLS = ("gru", "gru-reset-after", "gru-layer-norm")
SUPPORTED: dict[str, tuple[object, ...]] = {
    "model.encoder.kind": ("recurrent",),
    "model.encoder.cell": _CELLS,
    "model.attention.kind": ("additive", "concat"),
    "model.attention.span": ("global",),
    "model.decoder.order": ("attend-then-update", "conditional"),
    "model.decoder.cell": _CELLS,
    "model.decoder.initial_state": ("forward", "backward", "both", "mean"),
    "model.decoder.reads_words": (True,),
    "model.decoder.shares_recurrence": (False,),
    "model.decoder.output": ("maxout",),
    "search.no_repeat_ngram_size": (0,),
    "search.repetition_penalty": (1.0,),
    "search.replaces_unknown": (False,),
    "search.precision": ("float32",),
}
"""Supported values of the fields of a recipe. Fields that are left out may have any value."""


def unsupported(model: ModelConfig, search: SearchConfig, *tokenizers: TokenizerConfig) -> list[str]:
    """Returns the option and value of each part that the engine lacks, such as "--model.decoder.cell lstm"."""
    configs = SimpleNamespace(model=model, search=search)
    values = {field: attrgetter(field)(configs) for field in SUPPORTED}
    found = [f"--{field} {value}" for field, value in values.items() if value not in SUPPORTED[field]]
    for side, tokenizer in zip(("source", "target"), tokenizers, strict=True):
        found += [f"--{side}.kind word"] * (tokenizer.kind == "word")
        found += [f"--{side}.sentencepiece_model"] * bool(tokenizer.sentencepiece_model)
    return [each.replace("_", "-") for each in found]


def require_supported(model: ModelConfig, search: SearchConfig, *tokenizers: TokenizerConfig) -> None:
    """Raises ValueError, which names every part that the engine lacks.

    Args:
        model: Configuration of the model.
        search: Configuration of the search.
        *tokenizers: Configurations of the source's and the target's tokenizer.
    """
    if missing := unsupported(model, search, *tokenizers):
        advice = "Train the recipe conditional-gru, small-corpus or rnnsearch-small"
        if all(each.startswith("--search.") for each in missing):
            advice = "Remove the options, or pass their defaults"
        raise ValueError(
            f"--to: a translator in an HTML file cannot have {', '.join(missing)}. {advice}, or export a SavedModel: "
            "--to FOLDER."
        )
