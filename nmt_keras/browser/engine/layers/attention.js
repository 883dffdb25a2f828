/** Attention: a context for each hypothesis, from its state and the annotations of the source. */

/**
 * Additive attention over all source positions (Bahdanau, Cho, Bengio 2014, section 3.1 and appendix A.1.2).
 *
 *     e_ij     = v_a · tanh(W_a s_{i-1} + U_a h_j)
 *     alpha_ij = exp(e_ij) / SUM_k exp(e_ik)
 *     c_i      = SUM_j alpha_ij h_j
 */
export class BahdanauAttention {
  constructor(weights) {
    this.queryKernel = weights.matrix("query_kernel");
    this.keyKernel = weights.matrix("key_kernel");
    this.scoreVector = weights.vector("score_vector");
  }

  /** Returns U_a h_j, [S, A], once for each sentence. */
  keys(annotations) {
    return this.keyKernel.times(annotations);
  }

  /**
   * Returns alpha_ij, [Q, S].
   *
   * @param {Float32Array} query [Q, U] s_{i-1}
   * @param {Float32Array} keys [S, A]
   * @param {Uint8Array | null} hidden [S] 1 at source positions that get no attention
   * @param {import("../inspect.js").Inspect} [inspect]
   */
  attend(query, keys, hidden, inspect) {
    const A = this.scoreVector.length;
    const S = keys.length / A;
    const projected = this.queryKernel.times(query);
    const scores = new Float32Array((projected.length / A) * S);
    for (let row = 0, n = 0; row < projected.length; row += A) {
      for (let key = 0; key < keys.length; key += A, n++) {
        let score = 0;
        for (let a = 0; a < A; a++) score += this.scoreVector[a] * tanh(projected[row + a] + keys[key + a]);
        scores[n] = hidden?.[key / A] ? -Infinity : score;
      }
    }
    inspect?.("scores", scores.slice());
    for (let begin = 0; begin < scores.length; begin += S) softmax(scores.subarray(begin, begin + S));
    inspect?.("alignment", scores);
    return scores;
  }
}

/**
 * Returns SUM_j alpha_ij v_j, [Q, P].
 *
 * @param {Float32Array} alpha [Q, S]
 * @param {Float32Array} values [S, P] annotations h_j, or a matrix times each
 * @param {number} length S
 */
export function weightedSum(alpha, values, length) {
  const P = values.length / length;
  const result = new Float32Array((alpha.length / length) * P);
  for (let n = 0; n < alpha.length; n++) {
    const weight = alpha[n];
    const [begin, value] = [Math.floor(n / length) * P, (n % length) * P];
    for (let p = 0; p < P; p++) result[begin + p] += weight * values[value + p];
  }
  return result;
}

/** Replaces scores by their softmax. */
function softmax(scores) {
  let [peak, total] = [-Infinity, 0];
  for (const score of scores) peak = Math.max(peak, score);
  for (let i = 0; i < scores.length; i++) total += scores[i] = Math.exp(scores[i] - peak);
  for (let i = 0; i < scores.length; i++) scores[i] /= total;
}

/** tanh, in half the time of Math.tanh. Its absolute error is below 1e-15, so it is not for small results alone. */
function tanh(x) {
  return 1 - 2 / (1 + Math.exp(2 * x));
}
