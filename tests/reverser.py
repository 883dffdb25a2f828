"""A SavedModel that reverses the words of a sentence, with the signatures of an exported translator.

It is created quickly, and its outputs are easily checked. Sentences of more than three words count as truncated.
"""

from pathlib import Path

import tensorflow as tf

TEXT = tf.TensorSpec([None], tf.string, name="text")


class Reverser(tf.Module):
    """Stands in for a translation model."""

    @tf.function(input_signature=[TEXT])
    def serving_default(self, text):
        words = tf.strings.split(tf.ensure_shape(text, [None]))
        lengths = tf.cast(words.row_lengths(), tf.int32)
        return {
            "translation": tf.strings.reduce_join(tf.reverse(words, [1]), axis=1, separator=" "),
            "score": -tf.cast(lengths, tf.float32) / 3.0,
            "truncated": lengths > 3,
        }

    @tf.function(input_signature=[TEXT])
    def align(self, text):
        words = tf.strings.split(tf.ensure_shape(text, [None]))
        lengths = tf.cast(words.row_lengths(), tf.int32)
        source = words.to_tensor("")
        steps = tf.range(tf.shape(source)[1])
        mirrored = lengths[:, None, None] - 1 - steps[None, :, None] == steps[None, None, :]
        return {
            **self.serving_default(text),
            "log_prob": -tf.cast(lengths, tf.float32),
            "source_tokens": source,
            "source_lengths": lengths,
            "target_tokens": tf.reverse(words, [1]).to_tensor(""),
            "target_lengths": lengths,
            "alignment": tf.cast(mirrored, tf.float32),
        }

    @tf.function(input_signature=[TEXT])
    def beam(self, text):
        """Returns two hypotheses: the reversed words, and the words in their order."""
        found = self.align(text)
        order = tf.stack([found["target_tokens"], found["source_tokens"]], axis=1)
        straight = tf.eye(tf.shape(order)[2], batch_shape=[tf.shape(order)[0]])
        return {
            "translations": tf.strings.strip(tf.strings.reduce_join(order, axis=2, separator=" ")),
            "scores": tf.stack([found["score"], found["score"] - 1.0], axis=1),
            "log_probs": tf.stack([found["log_prob"], found["log_prob"] - 1.0], axis=1),
            "lengths": tf.stack([found["target_lengths"]] * 2, axis=1),
            "tokens": order,
            "source_tokens": found["source_tokens"],
            "source_lengths": found["source_lengths"],
            "alignment": tf.stack([found["alignment"], straight], axis=1),
            "truncated": found["truncated"],
        }


def export_reverser(version_folder: Path) -> None:
    """Exports the model as one version."""
    model = Reverser()
    greedy = model.serving_default
    signatures = {"serving_default": greedy, "greedy": greedy, "align": model.align, "beam": model.beam}
    tf.saved_model.save(model, str(version_folder), signatures=signatures)
