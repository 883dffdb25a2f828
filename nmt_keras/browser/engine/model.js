/** The model: a recurrent encoder, and a recurrent decoder with attention, of which a search computes steps. */

import { attend, Cell, weightedSum } from "./layers.js";
import { addTo, rowsOf } from "./matrix.js";

export class Model {
  /** Takes the model of a recipe, whose layers are supported (nmt_keras/browser/support.py), and its weights. */
  constructor(config, { encoder, decoder }) {
    const { cell, layers, order } = config.decoder;
    const directions = ["forward", "backward"].filter((way) => encoder[`${way}_0`]);
    this.config = config;
    this.encoder = encoder;
    this.decoder = decoder;
    this.encoderLayers = Array.from({ length: config.encoder.layers }, (_, n) =>
      Object.fromEntries(directions.map((way) => [way, new Cell(config.encoder.cell, encoder[`${way}_${n}`])])),
    );
    this.cells = Array.from({ length: layers }, (_, n) => new Cell(cell, decoder.stack[`cell_${n}`]));
    this.wordCell = order === "conditional" ? new Cell(cell, decoder.word_cell) : null;
  }

  /**
   * Returns the memory of S tokens, the last of which is END (Bahdanau, Cho, Bengio 2014, section 3.2).
   *
   *     h_j = [forward h_j ; backward h_j]                 (+ W_r e(x_j) with a word projection)
   *
   * C and C_o multiply the annotations once for each sentence: C c_i = SUM_j alpha_ij (C h_j). `hidden` [S] is 1 at
   * tokens that get no attention.
   */
  encode(ids, hidden = null) {
    const { embedding, word_kernel } = this.encoder;
    const embedded = embedding.embeddings.rows(ids);
    let annotations = embedded;
    let last;
    for (const layer of this.encoderLayers) {
      const states = Object.entries(layer).map(([way, cell]) => read(cell, annotations, way === "backward"));
      annotations = new Float32Array(ids.length * states.length * states[0][0].length);
      states.forEach((each, n) => each.forEach((h, j) => annotations.set(h, (j * states.length + n) * h.length)));
      last = { forward: layer.forward && states[0].at(-1), backward: layer.backward && states.at(-1)[0] };
    }
    if (word_kernel) addTo(annotations, word_kernel.times(embedded));
    return {
      ...{ length: ids.length, annotations, last, hidden },
      keys: this.decoder.attention.score.key_kernel.times(annotations), // [S, A] U_a h_j
      cellValues: this.cells[0].weights.context_kernel.times(annotations), // [S, 3U] C h_j
      outputValues: this.decoder.output_layer.context_kernel.times(annotations), // [S, 2l] C_o h_j
    };
  }

  /** Returns s_0 = tanh(W_s x + b_s), a state of one hypothesis: for each cell, [1, U]. */
  initialState({ annotations, length, last: { forward, backward } }) {
    const { kernel, bias } = this.decoder.bridge.dense;
    const x = {
      forward: () => forward,
      backward: () => backward,
      both: () => Float32Array.of(...forward, ...backward),
      mean: () => weightedSum(new Float32Array(length).fill(1 / length), annotations, length),
    }[this.config.decoder.initial_state]();
    const output = kernel.times(x, bias).map(Math.tanh);
    return this.cells.map(({ units }, n) => rowsOf(output, units, n));
  }

  /**
   * Computes one step of Q hypotheses (appendices A.1.2 and A.2.2).
   *
   *     alpha_i = attention(s_{i-1}, h)      c_i = SUM_j alpha_ij h_j      s_i = cell(e(y_{i-1}), s_{i-1}, c_i)
   *
   * A conditional decoder reads the word before it attends (Sennrich et al. 2017):
   *
   *     s'_i = word_cell(e(y_{i-1}), s_{i-1})      alpha_i = attention(s'_i, h)      s_i = cell(s'_i, c_i)
   *
   * Takes y_{i-1} [Q] and the states of each cell [Q, U]. Returns logits [Q, V], alpha_ij [Q, S] and the next states.
   * `inspect` receives names and values of the step; see inspect.js.
   */
  step(ids, states, memory, inspect) {
    const { embedding, attention } = this.decoder;
    const [first, ...others] = this.cells;
    const embedded = embedding.embeddings.rows(ids);
    inspect?.("embedded", embedded);
    const wordState = this.wordCell?.advance(this.wordCell.project(embedded), states[0], inspect); // s'_i
    const alpha = attend(attention.score, wordState ?? states.at(-1), memory.keys, memory.hidden, inspect);
    inspect?.("context", weightedSum(alpha, memory.annotations, memory.length));
    const context = weightedSum(alpha, memory.cellValues, memory.length); // C c_i
    const projected = wordState ? addTo(context, first.weights.bias) : addTo(first.project(embedded), context);
    const next = [first.advance(projected, wordState ?? states[0], inspect)];
    for (const [n, cell] of others.entries()) next.push(cell.advance(cell.project(next[n]), states[n + 1], inspect));
    const readsPrevious = !wordState && this.config.decoder.output_state === "previous";
    const features = this.#features((readsPrevious ? states : next).at(-1), embedded, alpha, memory);
    inspect?.("features", features);
    return { logits: this.#logits(features), alignment: alpha, states: next };
  }

  /** Returns t_i = max of each pair n, n + l of U_o s + V_o e(y_{i-1}) + C_o c_i (appendix A.2.2), [Q, l]. */
  #features(state, embedded, alpha, { outputValues, length }) {
    const { state_kernel, embedding_kernel, maxout_bias } = this.decoder.output_layer;
    const pairs = state_kernel.times(state, maxout_bias);
    addTo(addTo(pairs, embedding_kernel.times(embedded)), weightedSum(alpha, outputValues, length));
    const l = maxout_bias.length / 2;
    const features = new Float32Array(pairs.length / 2);
    for (let i = 0; i < features.length; i++) {
      const pair = i + Math.floor(i / l) * l;
      features[i] = Math.max(pairs[pair], pairs[pair + l]);
    }
    return features;
  }

  /** Returns W_o t_i + b, [Q, V]. W_o is the embedding if the weights have no other matrix (Press and Wolf 2017). */
  #logits(features) {
    const { output_kernel, output_bias } = this.decoder.output_layer;
    return (output_kernel ?? this.decoder.embedding.embeddings).times(features, output_bias);
  }

  /** Returns the states of the chosen hypotheses. */
  select(states, chosen) {
    return states.map((rows, n) => {
      const { units } = this.cells[n];
      const result = new Float32Array(chosen.length * units);
      chosen.forEach((row, q) => result.set(rowsOf(rows, units, row), q * units));
      return result;
    });
  }
}

/** Runs a cell over rows x in one direction. Returns the state at each position. */
function read(cell, x, isBackward) {
  const projected = cell.project(x);
  const S = projected.length / (3 * cell.units);
  const states = new Array(S);
  let state = new Float32Array(cell.units);
  for (let count = 0; count < S; count++) {
    const j = isBackward ? S - 1 - count : count;
    states[j] = state = cell.advance(rowsOf(projected, 3 * cell.units, j), state);
  }
  return states;
}
