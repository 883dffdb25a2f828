/** The encoder: annotations from token ids. */

import { CELLS } from "./layers/cells.js";
import { addTo } from "./matrix.js";

/**
 * Recurrent layers in one direction or both (Bahdanau, Cho, Bengio 2014, section 3.2).
 *
 *     h_j = [forward h_j ; backward h_j]                 (+ W_r e(x_j) with a word projection)
 */
export class Encoder {
  /**
   * @param {Weights} weights
   * @param {{cell: string, layers: number, direction: string}} config
   */
  constructor(weights, { cell, layers, direction }) {
    const cells = (way) => Array.from({ length: layers }, (_, i) => new CELLS[cell](weights.of(`${way}_${i}`)));
    this.embedding = weights.matrix("embedding/embeddings");
    this.forwardCells = direction === "backward" ? [] : cells("forward");
    this.backwardCells = direction === "forward" ? [] : cells("backward");
    this.wordKernel = weights.has("word_kernel") ? weights.matrix("word_kernel") : null;
    this.layers = layers;
  }

  /**
   * Encodes a sentence.
   *
   * @param {number[]} ids S tokens; the last is END
   * @returns {{annotations: Float32Array, length: number, last: {forward?: Float32Array, backward?: Float32Array}}}
   *     h_j [S, D], S, and the last state of each direction of the top layer
   */
  encode(ids) {
    const embedded = this.embedding.rows(ids);
    let annotations = embedded;
    let last = {};
    for (let layer = 0; layer < this.layers; layer++) {
      const outputs = [];
      last = {};
      for (const [way, cells] of Object.entries({ forward: this.forwardCells, backward: this.backwardCells })) {
        if (cells.length === 0) continue;
        const states = read(cells[layer], annotations, ids.length, way === "backward");
        outputs.push(states);
        last[way] = way === "backward" ? states[0] : states[ids.length - 1];
      }
      annotations = concatenated(outputs);
    }
    if (this.wordKernel !== null) addTo(annotations, this.wordKernel.times(embedded));
    return { annotations, length: ids.length, last };
  }
}

/** Runs a cell over the rows of x in one direction. Returns the output at each position. */
function read(cell, x, length, reverse) {
  const projected = cell.project(x);
  const width = projected.length / length;
  let state = cell.stateOf(new Float32Array(cell.units));
  const outputs = new Array(length);
  for (let count = 0; count < length; count++) {
    const position = reverse ? length - 1 - count : count;
    state = cell.advance(projected.subarray(position * width, (position + 1) * width), state);
    outputs[position] = state[0];
  }
  return outputs;
}

/** Returns the vectors of all directions, position by position, in one array. */
function concatenated(directions) {
  const U = directions[0][0].length;
  const result = new Float32Array(directions.length * directions[0].length * U);
  directions.forEach((outputs, n) =>
    outputs.forEach((output, position) => result.set(output, (position * directions.length + n) * U)),
  );
  return result;
}
