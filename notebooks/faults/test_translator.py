"""Four tests of translator.py, one for each fault. Run them with pytest in this folder; see README.md."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import translator

SOURCE = tf.constant([[2, 5, 6, 7, 8, 3], [2, 9, 10, 3, 0, 0]], tf.int64)  # 0 is padding
TARGET = tf.constant([[2, 4, 5, 6, 3], [2, 7, 3, 0, 0]], tf.int64)


def check(ok, message):
    """Fails the test with a message, without a traceback."""
    if not ok:
        pytest.fail(message, pytrace=False)


@pytest.fixture(scope="module")
def model():
    """An untrained model of 12 source words and 13 target words, with large weights."""
    keras.utils.set_random_seed(1)
    model = translator.Translator(12, 13)
    model(SOURCE, TARGET)
    for variable in model.trainable_variables:
        variable.assign(3.0 * np.random.default_rng(len(variable.path)).normal(size=variable.shape) / 4.0)
    return model


def test_1_each_step_of_the_search_continues_from_the_state_of_the_step_before(model):
    words = translator.translate(model, SOURCE, start=2)  # [B, T]
    read = tf.concat([tf.fill([2, 1], tf.constant(2, tf.int64)), words[:, :-1]], axis=1)
    best = tf.argmax(model(SOURCE, read), axis=-1)  # [B, T]
    equal = (best.numpy() == words.numpy()).all(axis=0)
    check(
        equal.all(),
        f"Greedy search wrote {words[0].numpy()}. After the same words, training would predict "
        f"{best[0].numpy()}: they differ from word {int(np.argmin(equal)) + 1} on.\n"
        "Training and search must compute the same probabilities: p(y_i | y_1 ... y_(i-1), x). The decoder remembers "
        "y_1 ... y_(i-2) only in its state s_(i-1). A search that does not pass the state on sees the last word alone. "
        "The loss cannot show this, because the loss does not search.\n"
        "Compare the loop of `translate` with the loop of `call`: what does each do with the results of `step`?",
    )


def test_2_padding_gets_no_attention(model):
    annotations, mask = model.encode(SOURCE)
    _, weights = model.attend(tf.ones([2, translator.UNITS]), annotations, mask)
    padding = float(tf.reduce_sum(tf.where(mask, 0.0, weights)[1]))
    check(
        padding < 1e-6,
        f"The second sentence has 4 tokens and 2 positions of padding. Its padding gets {padding:.0%} of the "
        "attention.\n"
        "Padding is no word: it is there because another sentence of the batch is longer. The context is then a mean "
        "of words and padding, so the translation of a sentence depends on the other sentences of its batch.\n"
        "Look at `attend`: which of its arguments is never used? A softmax gives the weight 0 only to scores far below "
        "all others.",
    )
    check(np.allclose(tf.reduce_sum(weights, axis=1), 1.0), "The weights of a sentence must sum to 1.")


def test_3_the_loss_is_that_of_words_not_of_padding():
    logits = tf.random.stateless_normal([2, 5, 13], seed=(1, 2))
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(TARGET, logits).numpy()
    wanted, found = losses[TARGET.numpy() != 0].mean(), float(translator.compute_loss(logits, TARGET))
    surely = logits + 100.0 * tf.one_hot(tf.where(TARGET == 0, 0, -1), 13)  # a model that is sure of padding
    tempting = float(translator.compute_loss(surely, TARGET))
    check(
        np.isclose(found, wanted, rtol=1e-5),
        f"The mean loss of the 8 words is {wanted:.3f} nats. `compute_loss` returns {found:.3f}, the mean of 10 "
        f"positions, 2 of which are padding. A model that learns only to predict padding lowers it to "
        f"{tempting:.3f}, and not one word is better.\n"
        "The loss then depends on how much padding a batch has: with long padding, it is near 0 for a model that "
        "translates nothing, and the gradients are about padding.\n"
        "Look at `compute_loss`: sum the losses of words only, and divide by the number of words. The id of padding "
        "is 0.",
    )


def test_4_no_translation_of_a_test_sentence_is_in_the_training_set():
    pairs = translator.make_pairs()
    train, test = translator.split(pairs)
    check(sorted(train + test) == sorted(pairs), "`split` must return each pair once.")
    check(0.1 < len(test) / len(pairs) < 0.3, f"The test set has {len(test)} of {len(pairs)} pairs, not a fifth.")
    known = {target: source for source, target in train}
    leaked = [(source, target) for source, target in test if target in known]
    example = "".join(f"\n    test: {s}  ->  {t}\n    train: {known[t]}  ->  {t}" for s, t in leaked[:1])
    check(
        not leaked,
        f"{len(leaked)} of {len(test)} test pairs have an English sentence that is in the training set, too:"
        f"{example}\n"
        "The model has learnt this sentence by heart, so the score shows what it remembers, not how it translates new "
        "sentences. A random split of pairs always does this where a sentence has several translations.\n"
        "Look at `split`: choose sentences for the test set, not pairs. All pairs of an English sentence belong to the "
        "same set. (Pairs of a real corpus also share source sentences: notebook 0 groups both.)",
    )
