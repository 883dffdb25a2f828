"""The papers' equations in plain NumPy, one sentence and one position at a time, in float64.

A sentence is a list of token ids, without batches, padding or masks. Tests compare padded batches with these functions.

Names are the papers' symbols, and matrices act on column vectors. By default, symbols are those of Bahdanau, Cho,
Bengio 2014, appendix A. The other papers are Cho et al. 2014 (GRU), cs224d, lecture 9 (GRU with the other convention),
Gers et al. 2000 (LSTM), Luong, Pham, Manning 2015, Vaswani et al. 2017, Kingma, Ba 2015 (Adam) and Zeiler 2012
(Adadelta). The last section maps the variables of a layer to these symbols.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

PAD, START, END = 0, 2, 3


def sigma(x):
    return 1.0 / (1.0 + np.exp(-x))


def softmax(e):
    powers = np.exp(e - np.max(e))
    return powers / powers.sum()


class Norm(NamedTuple):
    scale: np.ndarray
    bias: np.ndarray


def layer_norm(p: Norm, x):
    """Normalises x (Ba, Kiros, Hinton 2016, equation 4), with epsilon 1e-5 inside the square root."""
    mean = sum(x) / len(x)
    variance = sum((x_i - mean) ** 2 for x_i in x) / len(x)
    return p.scale * (x - mean) / np.sqrt(variance + 1e-5) + p.bias


# Cells. Each equation takes a cell's weights, x_t, the previous state, a context c_t (of width 0 without attention) and
# a recurrent dropout mask ``keep``. The mask applies to the previous state wherever a matrix multiplies it.


class Gate(NamedTuple):
    """Weights of a gate or of a proposed state."""

    W: np.ndarray
    U: np.ndarray
    C: np.ndarray
    b: np.ndarray

    def __call__(self, x, s, c):
        """W x + U s + C c + b."""
        return self.W @ x + self.U @ s + self.C @ c + self.b


class Cell(NamedTuple):
    equation: Callable
    gates: list[Gate]  # with the proposed state
    others: Sequence = ()  # further weights of the equation


def tanh_rnn(proposed, x, s, c, keep):
    """Returns s_t of the plain recurrent unit."""
    return np.tanh(proposed(x, keep * s, c))


def gru(z, r, proposed, x, s, c, keep):
    """Returns s_t of Cho et al. 2014. The reset gate acts before U."""
    z, r = (sigma(gate(x, keep * s, c)) for gate in (z, r))
    return (1.0 - z) * s + z * np.tanh(proposed(x, r * keep * s, c))


def reset_after_gru(z, r, proposed, d_z, d_r, d, x, s, c, keep):
    """Returns h_t of cs224d, lecture 9. The reset gate acts after U, and z keeps the old state.

    The second biases d_z, d_r and d, as in cuDNN, are added to the products with the state.
    """
    z, r = sigma(z(x, keep * s, c) + d_z), sigma(r(x, keep * s, c) + d_r)
    return z * s + (1.0 - z) * np.tanh(proposed.W @ x + r * (proposed.U @ (keep * s) + d) + proposed.C @ c + proposed.b)


def layer_norm_gru(z, r, proposed, of_input, of_proposed_input, of_state, of_proposed_state, x, s, c, keep):
    """Returns h_t of Ba et al. 2016, supplementary material. z and r are normalised as one vector."""
    inputs = [gate.W @ x + gate.C @ c + gate.b for gate in (z, r, proposed)]
    products = [gate.U @ (keep * s) for gate in (z, r, proposed)]
    a = layer_norm(of_input, np.concatenate(inputs[:2])) + layer_norm(of_state, np.concatenate(products[:2]))
    z, r = sigma(a[: len(s)]), sigma(a[len(s) :])
    proposed = np.tanh(layer_norm(of_proposed_input, inputs[2]) + r * layer_norm(of_proposed_state, products[2]))
    return (1.0 - z) * s + z * proposed


def lstm(i, f, proposed, o, x, state, context, keep):
    """Returns (h_t, c_t) for ``state`` (h_{t-1}, c_{t-1}). ``context`` is the attention's, c the cell's memory."""
    h, c = state
    i, f, o = (sigma(gate(x, keep * h, context)) for gate in (i, f, o))
    c = f * c + i * np.tanh(proposed(x, keep * h, context))
    return o * np.tanh(c), c


def advance(p: Cell, x, state, c=None, keep=1.0):
    """Returns the next state of a cell. If ``c`` is ``None``, there is no context."""
    return p.equation(*p.gates, *p.others, x, state, np.zeros(0) if c is None else c, keep)


def state_of(p, output):
    """Returns the state of a cell whose output is ``output``. The memory of an LSTM is 0."""
    return (output, np.zeros_like(output)) if p.equation is lstm else output


def zero_state(p):
    return state_of(p, np.zeros(len(p.gates[0].b)))


def output_of(p, state):
    """Returns the output of a cell: its state, without the memory of an LSTM."""
    return state[0] if p.equation is lstm else state


def advance_stack(cells, x, states, c=None, handed=None, read=None):
    """Returns the next state of each cell, and the output of the top cell.

    ``handed`` holds dropout masks for the inputs of all cells except the first, ``read`` holds recurrent dropout masks
    for the states of all cells.
    """
    after, below = [], x
    for number, (cell, state) in enumerate(zip(cells, states, strict=True)):
        keep = 1.0 if read is None else read[number]
        entering = below * handed[number - 1] if number and handed is not None else below
        after.append(advance(cell, entering, state, None if number else c, keep))
        below = output_of(cell, after[-1])
    return after, below


# Encoders


class RecurrentEncoder(NamedTuple):
    embedding: np.ndarray  # one row per word
    layers: list[tuple]  # forward and backward cell; None if the layer does not read in this direction
    W_r: np.ndarray | None  # adds each word's embedding to its annotation


class Encoded(NamedTuple):
    h: list[np.ndarray]
    forward: list  # for each layer the state after the last word, or None without this direction
    backward: list  # for each layer the state after the first word, or None


def read(cell, xs, keep=1.0):
    """Returns the state after each input, in reading order. All steps share the recurrent dropout mask ``keep``."""
    states, state = [], zero_state(cell)
    for x in xs:
        state = advance(cell, x, state, None, keep)
        states.append(state)
    return states


def encode(p: RecurrentEncoder, source) -> Encoded:
    """Returns annotations and the last states of each layer.

    Annotations are h_j = [forward h_j ; backward h_j] of the top layer. With W_r, W_r e(x_j) is added. A backward layer
    reads the sentence from its last word to its first.
    """
    embedded = [p.embedding[token] for token in source]
    below, ends = embedded, []
    for layer in p.layers:
        directions, last = [], []
        for cell, order in zip(layer, (1, -1), strict=True):
            states = [None] if cell is None else read(cell, below[::order])
            last.append(states[-1])
            if cell is not None:
                directions.append([output_of(cell, state) for state in states][::order])
        ends.append(last)
        below = [np.concatenate(parts) for parts in zip(*directions, strict=True)]
    if p.W_r is not None:
        below = [h + p.W_r @ e for h, e in zip(below, embedded, strict=True)]
    return Encoded(below, *map(list, zip(*ends, strict=True)))


def summary(p: RecurrentEncoder, encoded: Encoded, which="both"):
    """Returns [forward h_S ; backward h_1] of the top layer, or one of them, as ``which`` and the layer allow."""
    forward, backward = p.layers[-1]
    ends = {"forward": (forward, encoded.forward[-1]), "backward": (backward, encoded.backward[-1])}
    return np.concatenate([output_of(*ends[d]) for d in ends if which in (d, "both") and ends[d][0] is not None])


# Self-attention (Vaswani et al. 2017)


def sinusoid(position, units):
    """Returns PE of one position (section 3.5). Sines and cosines are interleaved, as in the paper."""
    pe = np.zeros(units)
    for i in range(units // 2):
        pe[2 * i] = np.sin(position / 10000.0 ** (2 * i / units))
        pe[2 * i + 1] = np.cos(position / 10000.0 ** (2 * i / units))
    return pe


class MultiHead(NamedTuple):
    W_Q: list[np.ndarray]  # one per head
    W_K: list[np.ndarray]
    W_V: list[np.ndarray]
    W_O: np.ndarray


def multi_head(p: MultiHead, x, values):
    """Returns the attention of one query x over ``values`` (section 3.2), and the weights of each head."""
    heads, all_weights = [], []
    for W_Q, W_K, W_V in zip(p.W_Q, p.W_K, p.W_V, strict=True):
        query = W_Q @ x
        weights = softmax(np.array([query @ (W_K @ v) / np.sqrt(len(query)) for v in values]))
        heads.append(sum(weight * (W_V @ v) for weight, v in zip(weights, values, strict=True)))
        all_weights.append(weights)
    return p.W_O @ np.concatenate(heads), np.stack(all_weights)


class SelfAttentionLayer(NamedTuple):
    norms: list[Norm]  # before each sublayer
    self_attention: MultiHead
    source: MultiHead | None
    W_1: np.ndarray
    b_1: np.ndarray
    W_2: np.ndarray
    b_2: np.ndarray


def feed_forward(p: SelfAttentionLayer, x):
    """x + W_2 relu(W_1 norm(x) + b_1) + b_2 (section 3.3)."""
    return x + p.W_2 @ np.maximum(0.0, p.W_1 @ layer_norm(p.norms[-1], x) + p.b_1) + p.b_2


class SelfAttentionEncoder(NamedTuple):
    embedding: np.ndarray
    entry: np.ndarray | None  # maps embeddings to the width of the layers
    layers: list[SelfAttentionLayer]
    norm: Norm


def enter(embedding, entry, token, position, units):
    """Returns sqrt(units) · e + PE(position) (sections 3.4 and 3.5). Sines come first, which permutes the units."""
    e = embedding[token] if entry is None else entry @ embedding[token]
    pe = sinusoid(position, units)
    return np.sqrt(units) * e + np.concatenate([pe[0::2], pe[1::2]])


def self_encode(p: SelfAttentionEncoder, source):
    """Returns annotations of a sentence. All words attend to all words, and each sublayer normalises its input."""
    units = len(p.norm.scale)
    xs = [enter(p.embedding, p.entry, token, position, units) for position, token in enumerate(source)]
    for layer in p.layers:
        normed = [layer_norm(layer.norms[0], x) for x in xs]
        xs = [x + multi_head(layer.self_attention, n, normed)[0] for x, n in zip(xs, normed, strict=True)]
        xs = [feed_forward(layer, x) for x in xs]
    return [layer_norm(p.norm, x) for x in xs]


# Attention. A score is a function of a state and an annotation. An attention is a function of a state, its position and
# the encoded source.


def additive(W_a, U_a, v_a):
    """e_ij = v_a · tanh(W_a s + U_a h_j) (Bahdanau et al. 2014, appendix A.1.2)."""
    return lambda s, h_j: v_a @ np.tanh(W_a @ s + U_a @ h_j)


def general(W_a):
    """e_ts = h_t · W_a h_s (Luong et al. 2015, section 3.1)."""
    return lambda s, h_j: s @ (W_a @ h_j)


def align(score, s, h):
    """Returns alpha_i over the annotations h of one sentence, for the state s."""
    return softmax(np.array([score(s, h_j) for h_j in h]))


def attend(alpha, h):
    """c_i = SUM_j alpha_ij h_j."""
    return sum(alpha_j * h_j for alpha_j, h_j in zip(alpha, h, strict=True))


def location(W_a, s, S):
    """a_t = softmax(W_a h_t) with S rows of W_a (Luong et al. 2015, equation 8). Positions without a row get 0."""
    known = W_a[: min(S, len(W_a))]
    return np.concatenate([softmax(known @ s), np.zeros(S - len(known))])


def align_within(score, s, h, p_t, D):
    """Returns a_t over a sentence. Positions outside [p_t - D, p_t + D] have weight 0."""
    inside = [abs(j - p_t) <= D for j in range(len(h))]
    total = sum(np.exp(score(s, h_j)) for h_j, near in zip(h, inside, strict=True) if near)
    return np.array([np.exp(score(s, h_j)) / total if near else 0.0 for h_j, near in zip(h, inside, strict=True)])


def predicted_position(W_p, v_p, s, S):
    """p_t = S · sigma(v_p · tanh(W_p h_t)) (Luong et al. 2015, equation 9)."""
    return S * sigma(v_p @ np.tanh(W_p @ s))


def prefer_near(alpha, p_t, D):
    """a_t(s) exp(-(s - p_t)^2 / (2 sigma^2)), sigma = D / 2 (Luong et al. 2015, equation 10)."""
    return np.array([a * np.exp(-((j - p_t) ** 2) / (2.0 * (D / 2.0) ** 2)) for j, a in enumerate(alpha)])


# Each attention maps a decoder state s, its position t (from 0) and an encoded source to an alignment and a context.


def attending(weights):
    """Returns the attention with alpha = ``weights(s, t, h)``.

    The alignment is alpha divided by its sum, because alpha of local-p sums to less than 1.
    """

    def answer(s, t, encoded: Encoded):
        alpha = weights(s, t, encoded.h)
        return alpha / sum(alpha), attend(alpha, encoded.h)

    return answer


def local_m(score, D):
    """p_t = min(t, S - 1): beyond the end of the source, the window is at its last word."""
    return attending(lambda s, t, h: align_within(score, s, h, min(t, len(h) - 1), D))


def local_p(score, D, W_p, v_p):
    def weights(s, t, h):
        p_t = predicted_position(W_p, v_p, s, len(h))
        return prefer_near(align_within(score, s, h, p_t, D), p_t, D)

    return attending(weights)


def equal_weights(h):
    """Returns the alignment of a model without attention."""
    return np.full(len(h), 1 / len(h))


# Output layers. The input of the last matrix is a function of the state, the context and the last word's embedding.


class OutputLayer(NamedTuple):
    hidden: Callable
    W_o: np.ndarray
    b_o: np.ndarray


def logits_of(p: OutputLayer, s, c, e):
    """Returns the logits of the softmax."""
    return p.W_o @ p.hidden(s, c, e) + p.b_o


def maxout(U_o, V_o, C_o, b):
    """t_i = max of neighbouring pairs of U_o s + V_o E y_{i-1} + C_o c_i (Bahdanau et al. 2014, appendix A.2.2)."""

    def hidden(s, c, e):
        t_tilde = U_o @ s + V_o @ e + C_o @ c + b
        return np.array([max(t_tilde[2 * j], t_tilde[2 * j + 1]) for j in range(len(t_tilde) // 2)])

    return hidden


def attentional(W_c, b_c):
    """h~_t = tanh(W_c [c_t ; h_t]) (Luong et al. 2015, equation 5)."""
    return lambda s, c, e: np.tanh(W_c @ np.concatenate([c, s]) + b_c)


# Initial states: functions of an encoded source


def projected_states(cells, W_s, b_s, what, encoder):
    """Returns a function that computes tanh(W_s · x + b_s) and splits it into one state per cell.

    ``what`` selects x. "backward" is the encoder's state at the first word (Bahdanau et al. 2014, appendix A.2.2),
    "forward" the state at the last word, "both" their concatenation, and "mean" the mean of the annotations.
    """

    def states(encoded: Encoded):
        x = sum(encoded.h) / len(encoded.h) if what == "mean" else summary(encoder, encoded, what)
        parts = np.split(np.tanh(W_s @ x + b_s), len(cells))
        return [state_of(cell, part) for cell, part in zip(cells, parts, strict=True)]

    return states


# Decoders


class RecurrentDecoder(NamedTuple):
    embedding: np.ndarray
    reads_words: bool
    initial_states: Callable
    cells: list
    attention: Callable
    output_layer: OutputLayer
    order: str  # "attend-then-update" (Bahdanau), "conditional" or "update-then-attend" (Luong)
    output_state: str | None  # Bahdanau's order: the output layer reads s_{i-1} ("previous") or s_i
    word_cell: Any  # conditional: cell that reads the word; None in other orders
    input_feeding: bool  # Luong's order: h~_{t-1} is an input beside the word


def bahdanau_step(p: RecurrentDecoder, last_token, t, states, encoded: Encoded):
    """Attends with s_{i-1}, then updates. Returns the logits of y_i, alpha_i and the states s_i."""
    e = p.embedding[last_token]
    s = output_of(p.cells[-1], states[-1])
    alpha, c = p.attention(s, t, encoded)
    states, s_next = advance_stack(p.cells, e if p.reads_words else np.zeros(0), states, c)
    return logits_of(p.output_layer, s if p.output_state == "previous" else s_next, c, e), alpha, states


def conditional_step(p: RecurrentDecoder, last_token, t, states, encoded: Encoded):
    """Updates with the word, attends, then updates with c_i. Returns the logits of y_i, alpha_i and the states s_i."""
    e = p.embedding[last_token]
    between = advance(p.word_cell, e if p.reads_words else np.zeros(0), states[0], None, 1.0)
    alpha, c = p.attention(output_of(p.word_cell, between), t, encoded)
    states, s_next = advance_stack(p.cells, np.zeros(0), [between, *states[1:]], c)
    return logits_of(p.output_layer, s_next, c, e), alpha, states


def luong_step(p: RecurrentDecoder, last_token, t, state, encoded: Encoded):
    """Updates, then attends with h_t. Returns the logits of y_t, a_t and the state (states, h~_t)."""
    states, fed = state
    e = p.embedding[last_token]
    states, h_t = advance_stack(p.cells, e if p.reads_words else np.zeros(0), states, fed if p.input_feeding else None)
    alpha, c = p.attention(h_t, t, encoded)
    return logits_of(p.output_layer, h_t, c, e), alpha, (states, p.output_layer.hidden(h_t, c, e))


class SelfAttentionDecoder(NamedTuple):
    embedding: np.ndarray
    entry: np.ndarray | None
    layers: list[SelfAttentionLayer]
    norm: Norm
    output_layer: OutputLayer


def self_attention_step(p: SelfAttentionDecoder, last_token, t, earlier, encoded: Encoded):
    """Returns the logits of the next token, the last layer's mean alignment over its heads, and all tokens so far.

    Each step computes all positions again.
    """
    tokens = [*earlier, last_token]
    xs = [enter(p.embedding, p.entry, token, position, len(p.norm.scale)) for position, token in enumerate(tokens)]
    for layer in p.layers:
        normed = [layer_norm(layer.norms[0], x) for x in xs]
        xs = [x + multi_head(layer.self_attention, normed[i], normed[: i + 1])[0] for i, x in enumerate(xs)]
        found = [multi_head(layer.source, layer_norm(layer.norms[1], x), encoded.h) for x in xs]
        xs = [feed_forward(layer, x + added) for x, (added, _) in zip(xs, found, strict=True)]
    return (
        logits_of(p.output_layer, layer_norm(p.norm, xs[-1]), np.zeros(0), p.embedding[last_token]),
        found[-1][1].mean(axis=0),
        tokens,
    )


class Weights(NamedTuple):
    """Weights of a model."""

    encoder: RecurrentEncoder | SelfAttentionEncoder
    decoder: RecurrentDecoder | SelfAttentionDecoder


def encode_any(p: RecurrentEncoder | SelfAttentionEncoder, source) -> Encoded:
    return encode(p, source) if isinstance(p, RecurrentEncoder) else Encoded(self_encode(p, source), [], [])


def begin(p, encoded: Encoded):
    """Returns the decoder state before the first token."""
    if isinstance(p, SelfAttentionDecoder):
        return []
    states = p.initial_states(encoded)
    return (states, np.zeros(p.output_layer.W_o.shape[1])) if p.order == "update-then-attend" else states


def next_logits(p, last_token, t, state, encoded: Encoded):
    """Returns the logits of token ``t``, alpha and the next state, for a decoder of any kind."""
    if isinstance(p, SelfAttentionDecoder):
        return self_attention_step(p, last_token, t, state, encoded)
    step = {"attend-then-update": bahdanau_step, "conditional": conditional_step, "update-then-attend": luong_step}
    return step[p.order](p, last_token, t, state, encoded)


def decode(p: Weights, source, target):
    """Returns logits [T, V] and alignments [T, S] of one pair under teacher forcing. The target ends in END."""
    encoded = encode_any(p.encoder, source)
    state, logits, alignments = begin(p.decoder, encoded), [], []
    for t, last_token in enumerate([START, *target[:-1]]):
        scores, alpha, state = next_logits(p.decoder, last_token, t, state, encoded)
        logits.append(scores)
        alignments.append(alpha)
    return np.array(logits), np.array(alignments)


def greedy(p: Weights, source, limit):
    """Translates greedily. Returns the tokens, including END if it was reached, and their log-probability in nats."""
    encoded = encode_any(p.encoder, source)
    state, tokens, log_prob = begin(p.decoder, encoded), [], 0.0
    while len(tokens) < limit and (not tokens or tokens[-1] != END):
        logits, _, state = next_logits(p.decoder, tokens[-1] if tokens else START, len(tokens), state, encoded)
        tokens.append(int(np.argmax([-np.inf if i in (PAD, START) else x for i, x in enumerate(logits)])))
        log_prob += np.log(softmax(logits)[tokens[-1]])
    return tokens, log_prob


def cross_entropy(logits, labels, smoothing=0.0):
    """Returns -SUM_t SUM_v q_v log p_v in nats, where q distributes ``smoothing`` evenly over all words."""
    total = 0.0
    for scores, label in zip(logits, labels, strict=True):
        q = np.full(len(scores), smoothing / len(scores))
        q[label] += 1.0 - smoothing
        total -= q @ np.log(softmax(scores))
    return total


def loss(p: Weights, pairs, smoothing=0.0):
    """Returns the summed cross-entropy of (source, target) pairs."""
    return sum(cross_entropy(decode(p, source, target)[0], target, smoothing) for source, target in pairs)


def clip(gradients, clip_norm):
    """Returns gradients scaled to a joint norm of at most ``clip_norm``, and their original norm."""
    norm = np.sqrt(sum(float(g) ** 2 for gradient in gradients for g in np.ravel(gradient)))
    return [g * clip_norm / norm if norm > clip_norm else g for g in gradients], norm


def adam(theta, gradients, alpha, beta_1, beta_2, epsilon):
    """Returns theta after one update per gradient, with learning rates ``alpha`` (Kingma, Ba 2015, algorithm 1).

    The computation is reordered as at the end of section 2: epsilon is added to sqrt(v_t) before the bias correction.
    """
    m, v = np.zeros_like(theta), np.zeros_like(theta)
    for t, (g, alpha_t) in enumerate(zip(gradients, alpha, strict=True), start=1):
        m = beta_1 * m + (1.0 - beta_1) * g
        v = beta_2 * v + (1.0 - beta_2) * g**2
        rate = alpha_t * np.sqrt(1.0 - beta_2**t) / (1.0 - beta_1**t)
        theta = theta - rate * m / (np.sqrt(v) + epsilon)
    return theta


def adadelta(theta, gradients, rho, epsilon, rate=1.0):
    """Returns theta after one update per gradient (Zeiler 2012, algorithm 1). ``rate`` multiplies the updates."""
    mean_g, mean_x = np.zeros_like(theta), np.zeros_like(theta)
    for g in gradients:
        mean_g = rho * mean_g + (1.0 - rho) * g**2
        move = -np.sqrt(mean_x + epsilon) / np.sqrt(mean_g + epsilon) * g
        mean_x = rho * mean_x + (1.0 - rho) * move**2
        theta = theta + rate * move
    return theta


# The variables of layers as symbols of the papers


def matrix(kernel):
    """Returns a layer's kernel [inputs, outputs] as a matrix that acts on column vectors."""
    return np.asarray(kernel, np.float64).T


def rows(bias, parts):
    return np.split(np.asarray(bias, np.float64), parts)


def cell_of(cell):
    """Returns the weights of a cell of any kind for the reference."""
    parts, nothing, recurrent = cell.projections, np.zeros([cell.units, 0]), matrix(cell.recurrent)
    kernels = cell.kernel, getattr(cell, "context_kernel", None)
    W, C = ([nothing] * parts if kernel is None else np.split(matrix(kernel), parts) for kernel in kernels)
    kind = type(cell).__name__
    U = [*np.split(matrix(cell.gates_recurrent), 2), recurrent] if kind == "GRUCell" else np.split(recurrent, parts)
    gates = [Gate(*each) for each in zip(W, U, C, rows(cell.bias, parts), strict=True)]
    match kind:
        case "ResetAfterGRUCell":
            return Cell(reset_after_gru, gates, rows(cell.recurrent_bias, 3))
        case "LayerNormGRUCell":
            names = ("gates_norm", "proposal_norm", "recurrent_gates_norm", "recurrent_proposal_norm")
            return Cell(layer_norm_gru, gates, [norm_of(getattr(cell, name)) for name in names])
    return Cell({"TanhCell": tanh_rnn, "GRUCell": gru, "LSTMCell": lstm}[kind], gates)


def recurrent_encoder_of(encoder) -> RecurrentEncoder:
    forward = [cell_of(cell) for cell in encoder.forward_cells] or [None] * encoder.num_layers
    backward = [cell_of(cell) for cell in encoder.backward_cells] or [None] * encoder.num_layers
    return RecurrentEncoder(
        embedding=np.asarray(encoder.embedding.embeddings, np.float64),
        layers=list(zip(forward, backward, strict=True)),
        W_r=matrix(encoder.word_kernel) if encoder.word_projection else None,
    )


def norm_of(layer) -> Norm:
    return Norm(np.asarray(layer.gamma, np.float64), np.asarray(layer.beta, np.float64))


def multi_head_of(layer) -> MultiHead:
    W_K, W_V = np.split(matrix(layer.key_value_kernel), 2)
    each = [np.split(W, layer.heads) for W in (matrix(layer.query_kernel), W_K, W_V)]
    return MultiHead(*each, matrix(layer.kernel))


def self_attention_layer_of(layer) -> SelfAttentionLayer:
    reads_source = hasattr(layer, "cross_attention")
    source_norm = [layer.cross_attention_norm] if reads_source else []
    return SelfAttentionLayer(
        norms=[norm_of(norm) for norm in (layer.self_attention_norm, *source_norm, layer.feed_forward_norm)],
        self_attention=multi_head_of(layer.self_attention),
        source=multi_head_of(layer.cross_attention) if reads_source else None,
        W_1=matrix(layer.inner_kernel),
        b_1=np.asarray(layer.inner_bias, np.float64),
        W_2=matrix(layer.outer_kernel),
        b_2=np.asarray(layer.outer_bias, np.float64),
    )


def self_attention_encoder_of(encoder) -> SelfAttentionEncoder:
    return SelfAttentionEncoder(
        embedding=np.asarray(encoder.embedding.embeddings, np.float64),
        entry=matrix(encoder.input_kernel) if encoder.embedding_size != encoder.units else None,
        layers=[self_attention_layer_of(block) for block in encoder.blocks],
        norm=norm_of(encoder.norm),
    )


def score_of(score):
    match type(score).__name__:
        case "AdditiveScore":
            return additive(
                matrix(score.query_kernel), matrix(score.key_kernel), np.asarray(score.score_vector, np.float64)
            )
        case "GeneralScore":
            return general(matrix(score.kernel))
        case "DotScore":
            return lambda s, h_j: s @ h_j  # e_ts = h_t · h_s (Luong et al. 2015, section 3.1)


def attention_of(attention, encoder: RecurrentEncoder | None = None):
    """Returns the attention of the reference for a layer. A fixed context requires the encoder of the reference."""
    match type(attention).__name__:
        case "FixedContext" if attention.source == "mean":
            return attending(lambda s, t, h: equal_weights(h))
        case "FixedContext":
            return lambda s, t, encoded: (equal_weights(encoded.h), summary(encoder, encoded))
        case "NoAttention":
            return lambda s, t, encoded: (equal_weights(encoded.h), np.zeros(0))
        case "MonotonicLocalAttention":
            return local_m(score_of(attention.score), attention.window)
        case "PredictiveLocalAttention":
            W_p, energy = matrix(attention.position_kernel), np.asarray(attention.position_vector, np.float64)
            v_p = energy / {"mean": len(energy), "sum": 1}[attention.position_logit]
            return local_p(score_of(attention.score), attention.window, W_p, v_p)
    if type(attention.score).__name__ == "LocationScore":
        W_a = matrix(attention.score.kernel)
        return attending(lambda s, t, h: location(W_a, s, len(h)))
    score = score_of(attention.score)
    return attending(lambda s, t, h: align(score, s, h))


def output_layer_of(layer, embedding) -> OutputLayer:
    """Returns the output layer of the reference for a layer. If tied, it multiplies with ``embedding``."""
    W_o = embedding if layer.tie_embeddings else np.asarray(layer.output_kernel, np.float64).T
    return OutputLayer(hidden_of(layer), W_o, np.asarray(layer.output_bias, np.float64))


def hidden_of(layer):
    match type(layer).__name__:
        case "MaxoutOutput":
            pairs = np.arange(2 * layer.units).reshape(2, -1).T.ravel()  # the members of a pair become neighbours
            kernels = layer.state_kernel, layer.embedding_kernel, layer.context_kernel
            U_o, V_o, C_o = (matrix(kernel)[pairs] for kernel in kernels)
            return maxout(U_o, V_o, C_o, np.asarray(layer.maxout_bias, np.float64)[pairs])
        case "LinearOutput":
            return lambda s, c, e: np.concatenate([s, c, e])
        case "AttentionalOutput":
            W_c = np.concatenate([matrix(layer.context_kernel), matrix(layer.state_kernel)], axis=1)
            return attentional(W_c, np.asarray(layer.bias, np.float64))
        case "StateOutput":
            return lambda s, c, e: s


def initial_states_of(bridge, cells, encoder):
    match type(bridge).__name__:
        case "CopyBridge":
            return lambda encoded: [
                b if f is None else f for f, b in zip(encoded.forward, encoded.backward, strict=True)
            ]
        case "ZeroBridge":
            return lambda encoded: [zero_state(cell) for cell in cells]
        case "DenseBridge":
            b_s = np.asarray(bridge.dense.bias, np.float64)
            return projected_states(cells, matrix(bridge.dense.kernel), b_s, bridge.source, encoder)


def decoder_of(decoder, encoder):
    """Returns the decoder of the reference for a layer. ``encoder`` is the encoder of the reference."""
    embedding = np.asarray(decoder.embedding.embeddings, np.float64)
    if type(decoder).__name__ == "SelfAttentionDecoder":
        return SelfAttentionDecoder(
            embedding=embedding,
            entry=matrix(decoder.input_kernel) if embedding.shape[1] != decoder.units else None,
            layers=[self_attention_layer_of(block) for block in decoder.blocks],
            norm=norm_of(decoder.norm),
            output_layer=output_layer_of(decoder.output_layer, embedding),
        )
    cells, kind = [cell_of(cell) for cell in decoder.stack.cells], type(decoder).__name__
    word_cell = decoder.word_cell if kind == "ConditionalDecoder" else None
    return RecurrentDecoder(
        embedding=embedding,
        reads_words=decoder.reads_words,
        initial_states=initial_states_of(decoder.bridge, cells, encoder),
        cells=cells,
        attention=attention_of(decoder.attention, encoder),
        output_layer=output_layer_of(decoder.output_layer, embedding),
        order={"Decoder": "attend-then-update", "ConditionalDecoder": "conditional"}.get(kind, "update-then-attend"),
        output_state=getattr(decoder, "output_state", None),
        word_cell=cell_of(word_cell) if word_cell else None,
        input_feeding=kind == "InputFeedingDecoder",
    )


def weights_of(model) -> Weights:
    recurrent = type(model.encoder).__name__ == "Encoder"
    encoder = recurrent_encoder_of(model.encoder) if recurrent else self_attention_encoder_of(model.encoder)
    return Weights(encoder, decoder_of(model.decoder, encoder))
