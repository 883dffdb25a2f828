/** Layers of the model: recurrent cells and attention. Their values are rows; see matrix.js. */

const sigmoid = (x) => 1 / (1 + Math.exp(-x));

/**
 * A gated unit (Cho et al. 2014). `project` computes what does not depend on the previous state.
 *
 *     z_t  = sigma(W_z x_t + U_z s_{t-1} + C_z c_t + b_z)           update gate
 *     r_t  = sigma(W_r x_t + U_r s_{t-1} + C_r c_t + b_r)           reset gate
 *     s~_t = tanh(W x_t + U [r_t * s_{t-1}] + C c_t + b)            proposal
 *     s_t  = (1 - z_t) * s_{t-1} + z_t * s~_t
 *
 * In the other kinds, the reset gate acts after the product with U:
 *
 *     gru-reset-after   of cuDNN: the products have a bias b', and s_t = z_t * s_{t-1} + (1 - z_t) * s~_t
 *     gru-layer-norm    W x_t + C c_t + b and U s_{t-1} are normalised, those of z and r as one vector of size 2U
 *                       (Ba, Kiros, Hinton 2016)
 */
export class Cell {
  constructor(kind, weights) {
    this.weights = weights;
    this.kind = kind;
    this.units = weights.bias.length / 3;
  }

  /** Returns W x_t + b, [Q, 3U]. */
  project(x) {
    return this.weights.kernel.times(x, this.weights.bias);
  }

  /** Returns the next state, [Q, U], after W x_t + C c_t + b [Q, 3U] and s_{t-1}. */
  advance(projected, previous, inspect) {
    const { units: U, kind, weights } = this;
    const resetsState = kind === "gru";
    const width = resetsState ? 2 * U : 3 * U;
    const [inputs, products] = this.#sums(projected, previous);
    const [update, reset, gated, next] = Array.from({ length: 4 }, () => new Float32Array(previous.length));
    for (let i = 0; i < previous.length; i++) {
      const row = Math.floor(i / U);
      const input = 2 * U * row + i;
      const product = (width - U) * row + i;
      update[i] = sigmoid(inputs[input] + products[product]);
      reset[i] = sigmoid(inputs[input + U] + products[product + U]);
      gated[i] = reset[i] * (resetsState ? previous[i] : products[product + 2 * U]);
    }
    const proposal = resetsState ? weights.recurrent.times(gated) : gated;
    for (let i = 0; i < previous.length; i++) {
      const row = Math.floor(i / U);
      proposal[i] = Math.tanh(inputs[2 * U * (row + 1) + i] + proposal[i]);
      const taken = kind === "gru-reset-after" ? 1 - update[i] : update[i];
      next[i] = previous[i] + taken * (proposal[i] - previous[i]);
    }
    inspect?.("cell", { previous, update, reset, proposal, next });
    return next;
  }

  /** Returns the sums of the inputs, [Q, 3U], and the products with the state, of z and r only in a "gru". */
  #sums(projected, previous) {
    const { units, kind, weights } = this;
    if (kind === "gru") return [projected, weights.gates_recurrent.times(previous)];
    const products = weights.recurrent.times(previous, weights.recurrent_bias ?? null);
    if (kind === "gru-layer-norm") {
      normalise(projected, units, weights.gates_norm, weights.proposal_norm);
      normalise(products, units, weights.recurrent_gates_norm, weights.recurrent_proposal_norm);
    }
    return [projected, products];
  }
}

/** Normalises rows [Q, 3U] in place: the first 2U numbers as one vector, and the last U. */
function normalise(rows, U, gates, proposal) {
  for (let begin = 0; begin < rows.length; begin += 3 * U) {
    layerNorm(rows.subarray(begin, begin + 2 * U), gates);
    layerNorm(rows.subarray(begin + 2 * U, begin + 3 * U), proposal);
  }
}

/** Replaces x by gamma * (x - mean) / sqrt(variance + 1e-5) + beta. */
function layerNorm(x, { gamma, beta }) {
  const mean = x.reduce((sum, value) => sum + value, 0) / x.length;
  const variance = x.reduce((sum, value) => sum + (value - mean) ** 2, 0) / x.length;
  const factor = 1 / Math.sqrt(variance + 1e-5);
  for (let i = 0; i < x.length; i++) x[i] = gamma[i] * (x[i] - mean) * factor + beta[i];
}

/**
 * Returns alpha_ij, [Q, S], by additive attention (Bahdanau, Cho, Bengio 2014, section 3.1 and appendix A.1.2).
 *
 *     e_ij = v_a · tanh(W_a s_{i-1} + U_a h_j)          alpha_ij = exp(e_ij) / SUM_k exp(e_ik)
 *
 * `query` is s_{i-1} [Q, U], `keys` are U_a h_j [S, A], and `hidden` [S] is 1 at source positions without attention.
 */
export function attend({ query_kernel, score_vector }, query, keys, hidden, inspect) {
  const A = score_vector.length;
  const S = keys.length / A;
  const projected = query_kernel.times(query);
  const scores = new Float32Array((projected.length / A) * S);
  for (let row = 0, n = 0; row < projected.length; row += A) {
    for (let key = 0; key < keys.length; key += A, n++) {
      let score = 0;
      for (let a = 0; a < A; a++) score += score_vector[a] * tanh(projected[row + a] + keys[key + a]);
      scores[n] = hidden?.[key / A] ? -Infinity : score;
    }
  }
  inspect?.("scores", scores.slice());
  for (let begin = 0; begin < scores.length; begin += S) softmax(scores.subarray(begin, begin + S));
  inspect?.("alignment", scores);
  return scores;
}

/** Returns SUM_j alpha_ij v_j, [Q, P], for the weights [Q, S] of values [S, P]: annotations, or a matrix times each. */
export function weightedSum(alpha, values, S) {
  const P = values.length / S;
  const result = new Float32Array((alpha.length / S) * P);
  for (let n = 0; n < alpha.length; n++) {
    const weight = alpha[n];
    const begin = Math.floor(n / S) * P;
    const value = (n % S) * P;
    for (let p = 0; p < P; p++) result[begin + p] += weight * values[value + p];
  }
  return result;
}

/** Replaces scores by their softmax. */
function softmax(scores) {
  const peak = Math.max(...scores);
  let total = 0;
  for (let i = 0; i < scores.length; i++) total += scores[i] = Math.exp(scores[i] - peak);
  for (let i = 0; i < scores.length; i++) scores[i] /= total;
}

/** tanh, in half the time of Math.tanh. Its absolute error is below 1e-15, so it is not for small results alone. */
function tanh(x) {
  return 1 - 2 / (1 + Math.exp(2 * x));
}
