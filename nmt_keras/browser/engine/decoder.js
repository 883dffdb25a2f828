/** Recurrent decoders with attention: one step of a search. */

import { BahdanauAttention, weightedSum } from "./layers/attention.js";
import { DenseBridge } from "./layers/bridges.js";
import { biased, CELLS, StackedCells } from "./layers/cells.js";
import { OUTPUT_LAYERS } from "./layers/output.js";
import { addTo, selectRows } from "./matrix.js";

/**
 * @typedef {object} Memory what the decoder reads of a sentence
 * @property {number} length S, source tokens
 * @property {Float32Array} annotations [S, D] h_j
 * @property {Float32Array} keys [S, A] U_a h_j
 * @property {Float32Array} cellValues [S, projections · U] C h_j
 * @property {Float32Array} outputValues [S, 2l] C_o h_j
 * @property {{forward?: Float32Array, backward?: Float32Array}} last the encoder's last states
 * @property {Uint8Array | null} hidden [S] 1 at source positions that get no attention; null for none
 *
 * @typedef {object} Prediction
 * @property {Float32Array} logits [Q, V]
 * @property {Float32Array} alignment [Q, S] alpha_ij
 * @property {Float32Array[][]} state of each cell, lists of [Q, U]
 */

/**
 * Attends with s_{i-1}, then updates (Bahdanau, Cho, Bengio 2014, appendix A.1.2 and A.2.2).
 *
 *     alpha_i = attention(s_{i-1}, h)         c_i = SUM_j alpha_ij h_j
 *     s_i     = cell(e(y_{i-1}), s_{i-1}, c_i)
 *
 * C and C_o multiply the annotations, once for each sentence: C c_i = SUM_j alpha_ij (C h_j).
 */
export class Decoder {
  /**
   * @param {Weights} weights
   * @param {object} config the decoder's part of a recipe
   */
  constructor(weights, { cell, layers, initial_state, output, output_state }) {
    const cells = Array.from({ length: layers }, (_, i) => new CELLS[cell](weights.of(`stack/cell_${i}`)));
    this.stack = new StackedCells(cells);
    this.embedding = weights.matrix("embedding/embeddings");
    this.attention = new BahdanauAttention(weights.of("attention/score"));
    this.bridge = new DenseBridge(weights.of("bridge"), initial_state);
    this.outputLayer = new OUTPUT_LAYERS[output](weights.of("output_layer"), this.embedding);
    this.readsPrevious = output_state === "previous";
  }

  /** Returns the memory of an encoded sentence. */
  setupMemory(encoding, hidden = null) {
    return {
      ...encoding,
      keys: this.attention.keys(encoding.annotations),
      cellValues: this.stack.cells[0].projectContext(encoding.annotations),
      outputValues: this.outputLayer.projectContext(encoding.annotations),
      hidden,
    };
  }

  /** Returns s_0, the state of one hypothesis. */
  initialState(memory) {
    return this.bridge.states(this.stack.cells, memory);
  }

  /**
   * Computes one step of Q hypotheses.
   *
   * @param {number[]} ids [Q] y_{i-1}
   * @param {Float32Array[][]} state
   * @param {Memory} memory
   * @param {import("./inspect.js").Inspect} [inspect]
   * @returns {Prediction}
   */
  step(ids, state, memory, inspect) {
    const embedded = this.embedding.rows(ids);
    inspect?.("embedded", embedded);
    const { alpha, next, outputState } = this.advance(embedded, state, memory, inspect);
    inspect?.("context", weightedSum(alpha, memory.annotations, memory.length));
    const context = weightedSum(alpha, memory.outputValues, memory.length); // C_o c_i
    const features = this.outputLayer.features(outputState, context, embedded);
    inspect?.("features", features);
    return { logits: this.outputLayer.logits(features), alignment: alpha, state: next };
  }

  /** Computes alpha_i and s_i. */
  advance(embedded, state, memory, inspect) {
    const [first] = this.stack.cells;
    const previous = state.at(-1)[0]; // s_{i-1} of the top layer
    const alpha = this.attention.attend(previous, memory.keys, memory.hidden, inspect);
    const context = weightedSum(alpha, memory.cellValues, memory.length); // C c_i
    const next = this.stack.advance(addTo(first.project(embedded), context), state, inspect);
    return { alpha, next, outputState: this.readsPrevious ? previous : next.at(-1)[0] };
  }

  /** Returns the states of the chosen hypotheses. */
  select(state, chosen) {
    const { cells } = this.stack;
    return state.map((parts, n) => parts.map((rows) => selectRows(rows, cells[n].units, chosen)));
  }
}

/**
 * Updates with the word, attends, then updates with the context: the conditional GRU (Sennrich et al. 2017).
 *
 *     s'_i    = word_cell(e(y_{i-1}), s_{i-1})
 *     alpha_i = attention(s'_i, h)         c_i = SUM_j alpha_ij h_j
 *     s_i     = cell(s'_i, c_i)
 */
export class ConditionalDecoder extends Decoder {
  constructor(weights, config) {
    super(weights, config);
    this.wordCell = new CELLS[config.cell](weights.of("word_cell"));
  }

  /** Computes s'_i, alpha_i and s_i. */
  advance(embedded, [first, ...others], memory, inspect) {
    const intermediate = this.wordCell.advance(this.wordCell.project(embedded), first, inspect); // s'_i
    const alpha = this.attention.attend(intermediate[0], memory.keys, memory.hidden, inspect);
    const context = weightedSum(alpha, memory.cellValues, memory.length); // C c_i
    const next = this.stack.advance(biased(this.stack.cells[0], context), [intermediate, ...others], inspect);
    return { alpha, next, outputState: next.at(-1)[0] };
  }
}

/** Decoders by the order of their steps in a recipe. */
export const DECODERS = { "attend-then-update": Decoder, conditional: ConditionalDecoder };
