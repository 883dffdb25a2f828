/** The values of a decoder's symbols, step by step, along a greedy translation. */

import { candidates, END, maxLength, PAD, START } from "./search.js";

const SHOWN = 10; // next words of each step

/**
 * @callback Inspect receives a field of `Values`, or one of its cells, while a step is computed
 * @param {string} name "cell" for each cell in the order of its computation
 * @param {Float32Array | Cell} value
 *
 * @typedef {object} Cell one cell of a step, all [U]
 * @property {Float32Array} previous the state that it reads
 * @property {Float32Array} update z
 * @property {Float32Array} reset r
 * @property {Float32Array} proposal
 * @property {Float32Array} next the state that it returns
 *
 * @typedef {object} Values
 * @property {Float32Array} embedded [E] e(y_{i-1})
 * @property {Float32Array} scores [S] e_ij; -Infinity at hidden positions
 * @property {Float32Array} alignment [S] alpha_ij
 * @property {Float32Array} context [D] c_i
 * @property {Float32Array} features [l] t_i
 * @property {Cell[]} cells of a conditional decoder: the word cell, then the others
 *
 * @typedef {object} Token
 * @property {number} id
 * @property {string} surface as the translation has it after the tokens before; "" at END
 * @property {number} logProb log p(y_i | ...)
 *
 * @typedef {Token & {next: Token[], values: Values}} Step y_i, and the most probable tokens, best first
 *
 * @typedef {object} Trace
 * @property {object} decoder the decoder's part of the recipe
 * @property {string[]} source [S] surfaces of the source tokens
 * @property {boolean} truncated
 * @property {Float32Array} annotations [S, D] h_j
 * @property {string} text
 * @property {Step[]} steps
 */

/**
 * Traces a greedy translation.
 *
 * @param {Model} model
 * @param {SearchConfig} search
 * @param {{ids: number[], surfaces: string[], truncated: boolean}} source the last token is END
 * @param {(ids: number[]) => {text: string, surfaces: string[]}} decode
 * @param {{ids?: number[], hidden?: number[]}} [options] first target tokens; source positions that get no attention
 * @returns {Trace}
 */
export function inspect(model, search, source, decode, { ids = [], hidden = [] } = {}) {
  if (hidden.length >= source.ids.length) throw new Error("hidden: expected a visible source token, found none.");
  const { decoder } = model;
  const mask = hidden.length ? Uint8Array.from(source.ids, (_, j) => hidden.includes(j)) : null;
  const memory = model.encode(source.ids, mask);
  const history = [];
  const named = (token) => {
    const surface = decode([...history, token.id]).surfaces.at(-1);
    return { ...token, surface: surface || (token.id === END ? "" : "…") }; // "…" is a copy that the source lacks
  };
  const steps = [];
  const longest = Math.max(maxLength(memory.length, search), ids.length && ids.length + 1);
  for (let state = decoder.initialState(memory); history.length < longest && history.at(-1) !== END; ) {
    const values = { cells: [] };
    const record = (name, value) => (name === "cell" ? values.cells.push(value) : (values[name] = value));
    const { logits, state: following } = decoder.step([history.at(-1) ?? START], state, memory, record);
    const next = candidates(logits, history, { ...search, beam_size: SHOWN }, PAD).slice(0, SHOWN);
    const [chosen] = history.length < ids.length ? candidates(logits, history, search, ids[history.length]) : next;
    steps.push({ ...named(chosen), next: next.map(named), values });
    history.push(chosen.id);
    state = following;
  }
  const { surfaces, truncated } = source;
  const { text } = decode(history);
  return { decoder: model.config.decoder, source: surfaces, truncated, annotations: memory.annotations, text, steps };
}
