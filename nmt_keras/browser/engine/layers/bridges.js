/** Bridges: the decoder's initial states from the encoder's states. */

/**
 * s_0 = tanh(W_s x + b_s). Each cell has its own U rows of W_s.
 *
 * x is the backward h_1 (Bahdanau et al. 2014), the forward h_S, both, or the mean of the annotations.
 */
export class DenseBridge {
  constructor(weights, source) {
    this.kernel = weights.matrix("dense/kernel");
    this.bias = weights.vector("dense/bias");
    this.source = source;
  }

  /** Returns the initial state of each cell: lists of [1, U]. */
  states(cells, { annotations, length, last }) {
    const { forward, backward } = last;
    const x = {
      forward: () => forward,
      backward: () => backward,
      both: () => Float32Array.of(...forward, ...backward),
      mean: () => mean(annotations, length),
    }[this.source]();
    const output = this.kernel.times(x, this.bias).map(Math.tanh);
    return cells.map((cell, n) => cell.stateOf(output.slice(n * cell.units, (n + 1) * cell.units)));
  }
}

function mean(annotations, length) {
  const D = annotations.length / length;
  return Float32Array.from({ length: D }, (_, d) => {
    let sum = 0;
    for (let i = d; i < annotations.length; i += D) sum += annotations[i];
    return sum / length;
  });
}
