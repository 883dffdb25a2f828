"""The dependence of each translated token on each source word, for models without attention, too."""

from typing import Any

import numpy as np

from nmt_keras.translation.model_translator import ModelTranslator

ERASED = "\N{REPLACEMENT CHARACTER}"
"""Takes the place of a word. It is in no vocabulary."""


def influence(translator: ModelTranslator, source: str, target: str) -> dict[str, Any]:
    """Returns by how much the probability of each target token falls if a source word becomes an unknown word.

    This is the erasure of Li, Monroe, Jurafsky 2016 ("Understanding neural networks through representation erasure"),
    with a difference of probabilities p(y_i | y_1 .. y_{i-1}, x).

    Returns:
        The words of the source, the target as text and as tokens, and a row for each token with a value in [0, 1] for
        each word. A rise of the probability is 0.
    """
    words = source.split()
    erased = [" ".join([*words[:place], ERASED, *words[place + 1 :]]) for place in range(len(words))]
    whole, *others = translator.score([source, *erased], [target] * (len(words) + 1))
    fall = np.exp(whole.token_log_probs) - np.exp([each.token_log_probs for each in others])  # [S, T]
    rows = np.maximum(0, fall).T.round(3).tolist()
    return {"source": words, "text": target, "target": whole.tokens, "falls": rows}
