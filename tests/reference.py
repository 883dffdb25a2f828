"""The papers' equations in plain NumPy, one sentence and one position at a time, in float64.

Nothing here knows about batches, padding or masks: a sentence is a list of token ids, so that whatever a layer does
about padding is compared with sentences that have none. Names are the papers' symbols (Bahdanau, Cho, Bengio 2014,
appendix A; Cho et al. 2014 for the gated unit; Kingma, Ba 2015 for Adam); matrices act on column vectors, as there.
The last section says which variable of a layer is which symbol.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

PAD, START, END = 0, 2, 3


def sigma(x):
    return 1.0 / (1.0 + np.exp(-x))


def softmax(e):
    powers = np.exp(e - np.max(e))
    return powers / powers.sum()


class GRU(NamedTuple):
    W_z: np.ndarray
    W_r: np.ndarray
    W: np.ndarray
    U_z: np.ndarray
    U_r: np.ndarray
    U: np.ndarray
    C_z: np.ndarray
    C_r: np.ndarray
    C: np.ndarray
    b_z: np.ndarray
    b_r: np.ndarray
    b: np.ndarray


def gru(p: GRU, x, s, c):
    """s_t from x_t, s_{t-1} and c_t, unit by unit."""
    z, r, proposed = np.zeros_like(s), np.zeros_like(s), np.zeros_like(s)
    for u in range(len(s)):
        z[u] = sigma(p.W_z[u] @ x + p.U_z[u] @ s + p.C_z[u] @ c + p.b_z[u])
        r[u] = sigma(p.W_r[u] @ x + p.U_r[u] @ s + p.C_r[u] @ c + p.b_r[u])
    for u in range(len(s)):
        proposed[u] = np.tanh(p.W[u] @ x + p.U[u] @ (r * s) + p.C[u] @ c + p.b[u])
    return (1.0 - z) * s + z * proposed


class Attention(NamedTuple):
    W_a: np.ndarray
    U_a: np.ndarray
    v_a: np.ndarray


def align(p: Attention, s, h):
    """alpha_i over the annotations h of one sentence, for the state s_{i-1}."""
    return softmax(np.array([p.v_a @ np.tanh(p.W_a @ s + p.U_a @ h_j) for h_j in h]))


def attend(alpha, h):
    """c_i = SUM_j alpha_ij h_j."""
    c = np.zeros_like(h[0])
    for alpha_j, h_j in zip(alpha, h, strict=True):
        c = c + alpha_j * h_j
    return c


class Readout(NamedTuple):
    U_o: np.ndarray
    V_o: np.ndarray
    C_o: np.ndarray
    b_t: np.ndarray
    W_o: np.ndarray
    b_o: np.ndarray


def readout(p: Readout, s, e, c):
    """The softmax's logits from a state, the last token's embedding and a context."""
    t_tilde = p.U_o @ s + p.V_o @ e + p.C_o @ c + p.b_t
    t = np.array([max(t_tilde[2 * j], t_tilde[2 * j + 1]) for j in range(len(t_tilde) // 2)])
    return p.W_o @ t + p.b_o


class Weights(NamedTuple):
    """A whole RNNsearch."""

    source_embedding: np.ndarray  # a row per word
    forward: GRU
    backward: GRU
    W_r: np.ndarray  # of the residual; zeros where there is none
    target_embedding: np.ndarray
    W_s: np.ndarray
    b_s: np.ndarray
    attention: Attention
    cell: GRU
    readout: Readout
    readout_state: str


def encode(p: Weights, source):
    """Annotations h_j = [forward h_j ; backward h_j] (+ W_r e(x_j)), the last forward and the first backward state."""
    nothing = np.zeros(p.forward.C.shape[1])
    forward, backward = [], []
    state = np.zeros(len(p.forward.b))
    for token in source:
        state = gru(p.forward, p.source_embedding[token], state, nothing)
        forward.append(state)
    state = np.zeros(len(p.backward.b))
    for token in reversed(source):
        state = gru(p.backward, p.source_embedding[token], state, nothing)
        backward.insert(0, state)
    h = [
        np.concatenate([f, b]) + p.W_r @ p.source_embedding[token]
        for f, b, token in zip(forward, backward, source, strict=True)
    ]
    return h, forward[-1], backward[0]


def begin(p: Weights, first_backward):
    """s_0 = tanh(W_s · backward h_1 + b_s)."""
    return np.tanh(p.W_s @ first_backward + p.b_s)


def next_logits(p: Weights, last_token, s, h):
    """Logits of y_i, alpha_i and s_i from y_{i-1}, s_{i-1} and the annotations."""
    e = p.target_embedding[last_token]
    alpha = align(p.attention, s, h)
    c = attend(alpha, h)
    s_next = gru(p.cell, e, s, c)
    return readout(p.readout, s if p.readout_state == "previous" else s_next, e, c), alpha, s_next


def decode(p: Weights, source, target):
    """Logits [T, V] and alignments [T, S] of one pair under teacher forcing; the target ends in END."""
    h, _, first_backward = encode(p, source)
    s = begin(p, first_backward)
    logits, alignments = [], []
    for last_token in [START, *target[:-1]]:
        scores, alpha, s = next_logits(p, last_token, s, h)
        logits.append(scores)
        alignments.append(alpha)
    return np.array(logits), np.array(alignments)


def greedy(p: Weights, source, limit):
    """The most probable token at every step: the tokens, END included if it came, and their log-probability in nats."""
    h, _, first_backward = encode(p, source)
    s, tokens, log_prob = begin(p, first_backward), [], 0.0
    while len(tokens) < limit and (not tokens or tokens[-1] != END):
        logits, _, s = next_logits(p, tokens[-1] if tokens else START, s, h)
        tokens.append(int(np.argmax([-np.inf if i in (PAD, START) else x for i, x in enumerate(logits)])))
        log_prob += np.log(softmax(logits)[tokens[-1]])
    return tokens, log_prob


def cross_entropy(logits, labels, smoothing=0.0):
    """SUM_t -SUM_v q_v log p_v in nats, where q shares ``smoothing`` evenly among all words."""
    total = 0.0
    for scores, label in zip(logits, labels, strict=True):
        p = softmax(scores)
        for v in range(len(p)):
            q = smoothing / len(p) + (1.0 - smoothing) * (v == label)
            total -= q * np.log(p[v])
    return total


def loss(p: Weights, pairs, smoothing=0.0):
    """The summed cross-entropy of (source, target) pairs."""
    return sum(cross_entropy(decode(p, source, target)[0], target, smoothing) for source, target in pairs)


def clip(gradients, clip_norm):
    """Gradients whose joint norm is ``clip_norm`` at the most, and the norm they had."""
    norm = np.sqrt(sum(float(g) ** 2 for gradient in gradients for g in np.ravel(gradient)))
    return [g * clip_norm / norm if norm > clip_norm else g for g in gradients], norm


def adam(theta, gradients, alpha, beta_1, beta_2, epsilon):
    """Theta after one update per gradient, at rates ``alpha``: algorithm 1 of Kingma, Ba 2015, as its section 2 ends.

    (There it reorders the computation: epsilon is added to sqrt(v_t), before the bias is corrected.)
    """
    m, v = np.zeros_like(theta), np.zeros_like(theta)
    for t, (g, alpha_t) in enumerate(zip(gradients, alpha, strict=True), start=1):
        m = beta_1 * m + (1.0 - beta_1) * g
        v = beta_2 * v + (1.0 - beta_2) * g**2
        rate = alpha_t * np.sqrt(1.0 - beta_2**t) / (1.0 - beta_1**t)
        theta = theta - rate * m / (np.sqrt(v) + epsilon)
    return theta


# Which variable of a layer is which symbol


def matrix(kernel):
    """A layer's kernel [inputs, outputs] as a matrix that acts on column vectors."""
    return np.asarray(kernel, np.float64).T


def gru_of(cell) -> GRU:
    W = np.split(matrix(cell.kernel), 3)
    U = [*np.split(matrix(cell.gates_recurrent), 2), matrix(cell.recurrent)]
    C = np.split(matrix(cell.context_kernel), 3) if cell.context_size else [np.zeros([cell.units, 0])] * 3
    return GRU(*W, *U, *C, *np.split(np.asarray(cell.bias, np.float64), 3))


def attention_of(attention) -> Attention:
    return Attention(matrix(attention.query_kernel), matrix(attention.key_kernel), np.asarray(attention.energy, float))


def readout_of(layer) -> Readout:
    U_o, C_o, V_o = np.split(matrix(layer.kernel), [layer.state_size, layer.state_size + layer.context_size], axis=1)
    biases = np.asarray(layer.bias, np.float64), np.asarray(layer.output_bias, np.float64)
    return Readout(U_o, V_o, C_o, biases[0], matrix(layer.output_kernel), biases[1])


def weights_of(model) -> Weights:
    encoder, decoder = model.encoder, model.decoder
    no_residual = np.zeros([encoder.embedding_size, 2 * encoder.units])
    return Weights(
        source_embedding=np.asarray(encoder.embedding.embeddings, np.float64),
        forward=gru_of(encoder.forward_cell),
        backward=gru_of(encoder.backward_cell),
        W_r=matrix(encoder.residual_kernel if encoder.residual else no_residual),
        target_embedding=np.asarray(decoder.embedding.embeddings, np.float64),
        W_s=matrix(decoder.start_kernel),
        b_s=np.asarray(decoder.start_bias, np.float64),
        attention=attention_of(decoder.attention),
        cell=gru_of(decoder.cell),
        readout=readout_of(decoder.output_layer),
        readout_state=decoder.readout_state,
    )
