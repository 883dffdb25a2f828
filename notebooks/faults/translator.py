"""A small translator from Spanish to English in plain TensorFlow and Keras. It has four faults: see README.md.

Shapes: B sentences, S source tokens, T target tokens, V target words, U units.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # no messages about missing GPUs

import random

import keras
import tensorflow as tf
from keras import layers

UNITS = 64
MAX_TOKENS = 10

SUBJECTS = [("yo", "I"), ("tú", "you"), ("ellos", "they")]
VERBS = [
    (("como", "comes", "comen"), "eat"),
    (("veo", "ves", "ven"), "see"),
    (("compro", "compras", "compran"), "buy"),
    (("quiero", "quieres", "quieren"), "want"),
    (("vendo", "vendes", "venden"), "sell"),
]
OBJECTS = [
    ("pan", "bread"),
    ("agua", "water"),
    ("dos libros", "two books"),
    ("una casa", "a house"),
    ("la mesa roja", "the red table"),
    ("el coche nuevo", "the new car"),
    ("las flores blancas del jardín", "the white flowers of the garden"),
    ("tres manzanas rojas y un queso", "three red apples and a cheese"),
]


# Data


def make_pairs():
    """Returns 80 pairs. Spanish may omit the pronoun, so each English sentence has two Spanish ones."""
    pairs = []
    for person, (pronoun, subject) in enumerate(SUBJECTS):
        for action, (forms, verb) in enumerate(VERBS):
            for spanish, english in OBJECTS[-(person + action) % 3 :: 3]:  # a third of all combinations
                target = f"{subject} {verb} {english}"
                pairs += [(f"{forms[person]} {spanish}", target), (f"{pronoun} {forms[person]} {spanish}", target)]
    return pairs


def split(pairs):
    """Returns training pairs and test pairs, about a fifth of all. Another call returns the same."""
    pairs = list(pairs)
    random.Random(1).shuffle(pairs)
    size = len(pairs) // 5
    return pairs[size:], pairs[:size]


def text_layer(sentences):
    """Returns a layer that maps sentences to ids [B, T]. Id 0 is padding."""
    layer = layers.TextVectorization(standardize=None)
    layer.adapt([f"[START] {sentence} [END]" for sentence in sentences])
    return layer


def to_ids(layer, sentences):
    """Returns ids [B, T]. Shorter sentences are padded."""
    return layer([f"[START] {sentence} [END]" for sentence in sentences])


# Model


class Translator(keras.Model):
    """An encoder, an attention and a decoder, as in notebook 0, with fewer units."""

    def __init__(self, source_words, target_words):
        super().__init__()
        self.source_embedding = layers.Embedding(source_words, UNITS)
        self.encoder = layers.Bidirectional(layers.GRU(UNITS // 2, return_sequences=True))
        self.query = layers.Dense(UNITS, use_bias=False)  # W_a
        self.key = layers.Dense(UNITS, use_bias=False)  # U_a
        self.energy = layers.Dense(1, use_bias=False)  # v_a
        self.target_embedding = layers.Embedding(target_words, UNITS)
        self.cell = layers.GRUCell(UNITS)
        self.logits = layers.Dense(target_words)

    def encode(self, source):
        """Returns annotations [B, S, U] of source ids [B, S], and a mask [B, S] that is False at padding."""
        mask = source != 0
        return self.encoder(self.source_embedding(source), mask=mask), mask

    def attend(self, state, annotations, mask):
        """Returns contexts [B, U] and weights [B, S] for states [B, U]."""
        hidden = tf.tanh(self.query(state)[:, tf.newaxis] + self.key(annotations))  # [B, S, U]
        scores = self.energy(hidden)[..., 0]  # [B, S]
        weights = tf.nn.softmax(scores)
        return tf.einsum("bs,bsu->bu", weights, annotations), weights

    def step(self, word, state, memory):
        """Returns logits [B, V] of the next word, the next state [B, U] and the weights [B, S]."""
        context, weights = self.attend(state, *memory)
        state, _ = self.cell(tf.concat([self.target_embedding(word), context], axis=-1), [state])
        return self.logits(tf.concat([state, context], axis=-1)), state, weights

    def call(self, source, words):
        """Returns logits [B, T, V] of the words that follow the words [B, T] (teacher forcing)."""
        memory, state, logits = self.encode(source), tf.zeros([tf.shape(source)[0], UNITS]), []
        for t in range(words.shape[1]):
            next_logits, state, _ = self.step(words[:, t], state, memory)
            logits.append(next_logits)
        return tf.stack(logits, axis=1)


def compute_loss(logits, target):
    """Returns the cross-entropy of target ids [B, T] per word, in nats, from logits [B, T, V]."""
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(target, logits)  # [B, T]
    return tf.reduce_mean(losses)


def translate(model, source, start):
    """Returns the ids [B, T] of the translations of source ids [B, S], by greedy search from the id ``start``."""
    memory, state = model.encode(source), tf.zeros([tf.shape(source)[0], UNITS])
    word, words = tf.fill([tf.shape(source)[0]], tf.cast(start, tf.int64)), []
    for _ in range(MAX_TOKENS):
        logits, _, _ = model.step(word, state, memory)
        word = tf.argmax(logits, axis=-1)
        words.append(word)
    return tf.stack(words, axis=1)


# Training


def main():
    """Trains for 60 epochs, and translates the test pairs."""
    keras.utils.set_random_seed(1)
    train, test = split(make_pairs())
    sources, targets = zip(*train, strict=True)
    source_text, target_text = text_layer(sources), text_layer(targets)
    words = target_text.get_vocabulary()
    model, optimizer = Translator(source_text.vocabulary_size(), len(words)), keras.optimizers.Adam(5e-3)
    data = tf.data.Dataset.from_tensor_slices((to_ids(source_text, sources), to_ids(target_text, targets)))

    @tf.function
    def update(source, target):
        with tf.GradientTape() as tape:
            loss = compute_loss(model(source, target[:, :-1]), target[:, 1:])
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    for epoch in range(1, 61):
        losses = [update(*batch) for batch in data.shuffle(len(train)).batch(16, drop_remainder=True)]
        if epoch % 10 == 0:
            print(f"epoch {epoch}: loss {float(tf.reduce_mean(losses)):.3f} nats per word")

    def translation(sentence):
        """Translates a sentence alone, without padding."""
        ids = translate(model, to_ids(source_text, [sentence]), words.index("[START]"))[0].numpy()
        return " ".join(words[i] for i in ids).split(" [END]")[0]

    found = [(source, target, translation(source)) for source, target in test]
    for source, _, guess in found[:5]:
        print(f"    {source}  ->  {guess}")
    print(f"{sum(target == guess for _, target, guess in found)} of {len(test)} test sentences are right")


if __name__ == "__main__":
    main()
