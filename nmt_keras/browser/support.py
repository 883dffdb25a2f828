"""Models, tokenizers and searches that the JavaScript engine can compute."""

from functools import reduce

from nmt_keras.config import ModelConfig, SearchConfig, TokenizerConfig

_CELLS = ("gru", "gru-reset-after", "gru-layer-norm")
MODEL: dict[str, tuple[object, ...]] = {
    "encoder.kind": ("recurrent",),
    "encoder.cell": _CELLS,
    "attention.kind": ("additive", "concat"),
    "attention.span": ("global",),
    "decoder.order": ("attend-then-update", "conditional"),
    "decoder.cell": _CELLS,
    "decoder.initial_state": ("forward", "backward", "both", "mean"),
    "decoder.reads_words": (True,),
    "decoder.shares_recurrence": (False,),
    "decoder.output": ("maxout",),
}
"""Supported values of the fields of ``ModelConfig``. Fields that are left out may have any value."""


def unsupported(model: ModelConfig, search: SearchConfig, *tokenizers: TokenizerConfig) -> list[str]:
    """Returns the option and value of each part that the engine lacks, such as "--model.decoder.cell lstm"."""
    values = {field: reduce(getattr, field.split("."), model) for field in MODEL}
    found = [f"--model.{field} {value}" for field, value in values.items() if value not in MODEL[field]]
    found += ["--search.precision bfloat16"] * (search.precision == "bfloat16")
    sides = zip(("source", "target"), tokenizers, strict=True)
    return [each.replace("_", "-") for each in found] + [f"--{side}.kind word" for side, t in sides if t.kind == "word"]


def require_supported(model: ModelConfig, search: SearchConfig, *tokenizers: TokenizerConfig) -> None:
    """Raises ValueError, which names every part that the engine lacks.

    Args:
        model: Configuration of the model.
        search: Configuration of the search.
        *tokenizers: Configurations of the source's and the target's tokenizer.
    """
    if missing := unsupported(model, search, *tokenizers):
        raise ValueError(
            f"--to: a translator in an HTML file cannot have {', '.join(missing)}. Train the recipe conditional-gru, "
            "small-corpus or rnnsearch-small, or export a SavedModel: --to FOLDER."
        )
