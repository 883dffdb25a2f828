/**
 * Recurrent cells. A cell splits its equation: `project` and `projectContext` do not depend on the previous state,
 * `advance` does.
 *
 * A state is a list of rows [Q, U], one in every GRU. Its first element is what other layers read.
 */

import { addToRows } from "../matrix.js";

export const sigmoid = (x) => 1 / (1 + Math.exp(-x));

/** Base of the cells. `projections` is the number of vectors that are computed from the inputs. */
class Cell {
  static projections = 3;

  constructor(weights) {
    this.bias = weights.vector("bias");
    this.units = this.bias.length / this.constructor.projections;
    this.kernel = weights.has("kernel") ? weights.matrix("kernel") : null;
    this.contextKernel = weights.has("context_kernel") ? weights.matrix("context_kernel") : null;
  }

  /** Returns W x_t + b, [Q, projections · U]. */
  project(x) {
    return this.kernel.times(x, this.bias);
  }

  /** Returns C c_t, [Q, projections · U]. */
  projectContext(context) {
    return this.contextKernel.times(context);
  }

  /** Returns the state whose output is `output`. */
  stateOf(output) {
    return [output];
  }
}

/**
 * The gated unit of Cho et al. 2014.
 *
 *     z_t  = sigma(W_z x_t + U_z s_{t-1} + C_z c_t + b_z)           update gate
 *     r_t  = sigma(W_r x_t + U_r s_{t-1} + C_r c_t + b_r)           reset gate
 *     s~_t = tanh(W x_t + U [r_t * s_{t-1}] + C c_t + b)            proposal
 *     s_t  = (1 - z_t) * s_{t-1} + z_t * s~_t
 */
class GRUCell extends Cell {
  constructor(weights) {
    super(weights);
    this.gatesRecurrent = weights.matrix("gates_recurrent");
    this.recurrent = weights.matrix("recurrent");
  }

  /**
   * Returns the next state.
   *
   * @param {Float32Array} projected [Q, 3U] W x_t + C c_t + b
   * @param {Float32Array[]} state s_{t-1}
   * @param {import("../inspect.js").Inspect} [inspect]
   */
  advance(projected, [previous], inspect) {
    const U = this.units;
    const gates = this.gatesRecurrent.times(previous);
    const update = new Float32Array(previous.length);
    const reset = new Float32Array(previous.length);
    const gated = new Float32Array(previous.length);
    for (let i = 0; i < previous.length; i++) {
      const row = Math.floor(i / U);
      const u = i - row * U;
      update[i] = sigmoid(projected[3 * U * row + u] + gates[2 * U * row + u]);
      reset[i] = sigmoid(projected[3 * U * row + U + u] + gates[2 * U * row + U + u]);
      gated[i] = reset[i] * previous[i];
    }
    const proposal = this.recurrent.times(gated);
    const next = new Float32Array(previous.length);
    for (let i = 0; i < previous.length; i++) {
      const row = Math.floor(i / U);
      proposal[i] = Math.tanh(projected[3 * U * row + 2 * U + (i - row * U)] + proposal[i]);
      next[i] = previous[i] + update[i] * (proposal[i] - previous[i]);
    }
    inspect?.("cell", { previous, update, reset, proposal, next });
    return [next];
  }
}

/** Base of the cells whose reset gate acts after the product with U. */
class ResetAfterCell extends Cell {
  constructor(weights) {
    super(weights);
    this.recurrent = weights.matrix("recurrent");
  }

  /** Returns the next state; see GRUCell. */
  advance(projected, [previous], inspect) {
    const U = this.units;
    const [inputs, products] = this.sums(projected, previous);
    const [update, reset, proposal, next] = Array.from({ length: 4 }, () => new Float32Array(previous.length));
    for (let i = 0; i < previous.length; i++) {
      const row = Math.floor(i / U);
      const z = 3 * U * row + (i - row * U);
      update[i] = sigmoid(inputs[z] + products[z]);
      reset[i] = sigmoid(inputs[z + U] + products[z + U]);
      proposal[i] = Math.tanh(inputs[z + 2 * U] + reset[i] * products[z + 2 * U]);
      const taken = this.constructor.updateTakesProposal ? update[i] : 1 - update[i];
      next[i] = previous[i] + taken * (proposal[i] - previous[i]);
    }
    inspect?.("cell", { previous, update, reset, proposal, next });
    return [next];
  }
}

/**
 * The gated unit of cuDNN.
 *
 *     z_t  = sigma(W_z x_t + U_z s_{t-1} + C_z c_t + b_z + b'_z)
 *     r_t  = sigma(W_r x_t + U_r s_{t-1} + C_r c_t + b_r + b'_r)
 *     s~_t = tanh(W x_t + r_t * (U s_{t-1} + b') + C c_t + b)
 *     s_t  = z_t * s_{t-1} + (1 - z_t) * s~_t
 */
class ResetAfterGRUCell extends ResetAfterCell {
  static updateTakesProposal = false;

  constructor(weights) {
    super(weights);
    this.recurrentBias = weights.vector("recurrent_bias");
  }

  sums(projected, previous) {
    return [projected, this.recurrent.times(previous, this.recurrentBias)];
  }
}

/**
 * The GRU with layer normalisation of its products (Ba, Kiros, Hinton 2016). The sums of z and r are normalised as one
 * vector of size 2U.
 *
 *     z_t  = sigma(LN(W_z x_t + C_z c_t + b_z) + LN(U_z s_{t-1}))               update gate
 *     r_t  = sigma(LN(W_r x_t + C_r c_t + b_r) + LN(U_r s_{t-1}))               reset gate
 *     s~_t = tanh(LN(W x_t + C c_t + b) + r_t * LN(U s_{t-1}))                  proposal
 *     s_t  = (1 - z_t) * s_{t-1} + z_t * s~_t
 */
class LayerNormGRUCell extends ResetAfterCell {
  static updateTakesProposal = true;

  constructor(weights) {
    super(weights);
    const norm = (name) => new LayerNorm(weights.of(name));
    this.inputNorms = [norm("gates_norm"), norm("proposal_norm")];
    this.recurrentNorms = [norm("recurrent_gates_norm"), norm("recurrent_proposal_norm")];
  }

  sums(projected, previous) {
    const U = this.units;
    const normalised = (sums, [gates, proposal]) => {
      const result = new Float32Array(sums.length);
      for (let begin = 0; begin < sums.length; begin += 3 * U) {
        gates.normalise(sums, result, begin, 2 * U);
        proposal.normalise(sums, result, begin + 2 * U, U);
      }
      return result;
    };
    return [
      normalised(projected, this.inputNorms),
      normalised(this.recurrent.times(previous), this.recurrentNorms),
    ];
  }
}

/** Layer normalisation: gamma * (x - mean) / sqrt(variance + 1e-5) + beta. */
class LayerNorm {
  constructor(weights) {
    this.gamma = weights.vector("gamma");
    this.beta = weights.vector("beta");
  }

  /** Normalises x[begin] to x[begin + size - 1] into `result`. */
  normalise(x, result, begin, size) {
    let [sum, squares] = [0, 0];
    for (let i = begin; i < begin + size; i++) sum += x[i];
    const mean = sum / size;
    for (let i = begin; i < begin + size; i++) squares += (x[i] - mean) ** 2;
    const factor = 1 / Math.sqrt(squares / size + 1e-5);
    for (let i = 0; i < size; i++) result[begin + i] = this.gamma[i] * (x[begin + i] - mean) * factor + this.beta[i];
  }
}

/** Cells by their names in a recipe. */
export const CELLS = { gru: GRUCell, "gru-reset-after": ResetAfterGRUCell, "gru-layer-norm": LayerNormGRUCell };

/** Cells on top of each other. Each reads the output of the cell below it. */
export class StackedCells {
  constructor(cells) {
    this.cells = cells;
  }

  /**
   * Returns the next states of all cells.
   *
   * @param {Float32Array} projected [Q, projections · U] of the first cell
   * @param {Float32Array[][]} states
   */
  advance(projected, states, inspect) {
    const next = [];
    for (const [number, cell] of this.cells.entries()) {
      if (number) projected = cell.project(next[number - 1][0]);
      next.push(cell.advance(projected, states[number], inspect));
    }
    return next;
  }
}

/** Returns b + C c for a cell without input, [Q, projections · U]. */
export function biased(cell, projectedContext) {
  return addToRows(projectedContext, cell.bias);
}
