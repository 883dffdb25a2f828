"""Encoders: from token ids to annotations."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from nmt_keras.cells import GRUCell, Noise, Part, dropout, product, scan


class Encoding(NamedTuple):
    """A batch of encoded sentences."""

    values: tf.Tensor  # [B, S, D] float: annotation h_j of each position; 0 at padding
    mask: tf.Tensor  # [B, S] bool: True at tokens, False at padding
    lengths: tf.Tensor  # [B] int32: tokens
    states: Any  # the last state of each direction: (forward h_S [B, U], backward h_1 [B, U])


@keras.saving.register_keras_serializable("nmt_keras")
class Encoder(Part):
    """The bidirectional encoder (Bahdanau, Cho, Bengio 2014, section 3.2).

        h_j = [forward h_j ; backward h_j]                       (+ W_r e(x_j) with ``residual``)

    Each direction is a :class:`~nmt_keras.cells.GRUCell` over the source embeddings. Padding holds the state still: the
    forward state is the one at the sentence's last token however wide the batch is, and the backward state starts
    there.

    Args:
        vocabulary_size: source vocabulary.
        embedding_size: E.
        units: U, of each direction; annotations have D = 2U.
        residual: whether to add W_r e(x_j), a linear view of the word itself, to its annotation. The paper does not;
            with it the decoder learns which word translates which before the recurrence has learnt to carry words.
        dropout: probability of dropping an entry of the embeddings, in training.
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_size: int,
        units: int,
        residual: bool = False,
        dropout: float = 0.0,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.vocabulary_size, self.embedding_size, self.units = vocabulary_size, embedding_size, units
        self.residual, self.dropout = residual, dropout
        self.embedding = keras.layers.Embedding(vocabulary_size, embedding_size, name="embedding")
        self.forward_cell = GRUCell(units, embedding_size, name="forward")
        self.backward_cell = GRUCell(units, embedding_size, name="backward")
        if residual:
            self.residual_kernel = self.weight("residual_kernel", (embedding_size, 2 * units), "glorot_uniform")

    def build(self, input_shape: Any = None) -> None:
        """Builds the embedding."""
        self.embedding.build()
        super().build(input_shape)

    def call(self, ids: tf.Tensor, mask: tf.Tensor, noise: Noise | None = None) -> Encoding:
        """Encodes ids [B, S] whose mask [B, S] is True at tokens; each row begins with at least one token."""
        embedded = dropout(self.cast(tf.gather(self.embedding.embeddings, ids)), self.dropout, noise, "source")
        held = mask[:, :, tf.newaxis]
        still = tf.zeros([tf.shape(ids)[0], 1, self.units], embedded.dtype)

        def advancing(cell: GRUCell) -> Any:
            def advance(x: tuple[tf.Tensor, tf.Tensor], state: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
                projected, real = x
                state = tf.where(real, cell.advance(projected, state), state)
                return state, state

            return advance

        last, forward = scan(advancing(self.forward_cell), (self.forward_cell.project(embedded), held), still)
        first, backward = scan(
            advancing(self.backward_cell), (self.backward_cell.project(embedded), held), still, reverse=True
        )
        values = tf.concat([forward, backward], axis=-1)
        if self.residual:
            values += product(embedded, self.cast(self.residual_kernel))
        values = tf.where(held, values, tf.zeros([], values.dtype))
        lengths = tf.reduce_sum(tf.cast(mask, tf.int32), axis=1)
        return Encoding(values, mask, lengths, (last[:, 0], first[:, 0]))

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "embedding_size": self.embedding_size,
            "units": self.units,
            "residual": self.residual,
            "dropout": self.dropout,
        }
