/** Output layers: logits from the decoder's state, the context and the previous word. */

import { addTo } from "../matrix.js";

/**
 * The deep output with one maxout layer (Bahdanau, Cho, Bengio 2014, appendix A.2.2).
 *
 *     t~_i = U_o s + V_o e(y_{i-1}) + C_o c_i          2l numbers
 *     t_i  = max of each pair of t~_i                  l numbers; n and n + l form a pair
 *     p(y_i | ...) = softmax(W_o t_i + b)
 */
export class MaxoutOutput {
  /**
   * @param {Weights} weights
   * @param {Matrix} embedding W_o, if the weights have none (Press and Wolf 2017)
   */
  constructor(weights, embedding) {
    this.stateKernel = weights.matrix("state_kernel");
    this.contextKernel = weights.matrix("context_kernel");
    this.embeddingKernel = weights.matrix("embedding_kernel");
    this.maxoutBias = weights.vector("maxout_bias");
    this.outputKernel = weights.has("output_kernel") ? weights.matrix("output_kernel") : embedding;
    this.outputBias = weights.vector("output_bias");
  }

  /** Returns C_o c, [Q, 2l]. */
  projectContext(context) {
    return this.contextKernel.times(context);
  }

  /** Returns t_i, [Q, l]. */
  features(state, projectedContext, embedded) {
    const pairs = this.stateKernel.times(state, this.maxoutBias);
    addTo(addTo(pairs, this.embeddingKernel.times(embedded)), projectedContext);
    const l = this.maxoutBias.length / 2;
    const features = new Float32Array(pairs.length / 2);
    for (let i = 0; i < features.length; i++) {
      const pair = i + Math.floor(i / l) * l;
      features[i] = Math.max(pairs[pair], pairs[pair + l]);
    }
    return features;
  }

  /** Returns W_o t_i + b, [Q, V]. */
  logits(features) {
    return this.outputKernel.times(features, this.outputBias);
  }
}

/** Output layers by their names in a recipe. */
export const OUTPUT_LAYERS = { maxout: MaxoutOutput };
