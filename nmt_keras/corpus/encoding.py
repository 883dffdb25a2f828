"""Lines as token ids, many at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from nmt_keras.corpus.batches import TokenLists
from nmt_keras.text import Text

LINES_AT_ONCE = 4096


def encode_lines(text: Text, lines: Sequence[str]) -> tuple[TokenLists, np.ndarray]:
    """All lines as token ids, cut at ``max_tokens`` of the text's configuration, and which were cut, [N] bool."""
    ids, lengths, truncated = [np.zeros([0], np.int32)], [np.zeros([0], np.int32)], [np.zeros([0], bool)]
    for begin in range(0, len(lines), LINES_AT_ONCE):
        tokens = text.encode(tf.constant(lines[begin : begin + LINES_AT_ONCE]))
        lengths.append(tokens.lengths.numpy())
        truncated.append(tokens.truncated.numpy())
        real = np.arange(tokens.ids.shape[1]) < lengths[-1][:, np.newaxis]
        ids.append(tokens.ids.numpy()[real])
    return TokenLists(np.concatenate(ids), np.concatenate(lengths)), np.concatenate(truncated)
