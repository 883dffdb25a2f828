/** The values of a decoder's symbols, step by step, along a greedy translation. */

import { candidates, END, maxLength, START } from "./search.js";

const SHOWN = 10; // next words of each step

/**
 * Traces a greedy translation of an encoded sentence (see codec.js), whose first tokens may be given as `ids`. Source
 * positions in `hidden` get no attention. `decode` returns the text and the surfaces of target tokens.
 *
 * The Trace has the decoder's part of the recipe, the surfaces of the source [S], its annotations h_j [S, D], the text,
 * and steps: id, surface ("" for END) and logProb, log p(y_i | ...) in nats, of y_i and of the most probable tokens
 * `next`, best first, and `values`: embedded e(y_{i-1}), scores [S] e_ij (-Infinity if hidden), alignment [S] alpha_ij,
 * context [D] c_i, features [l] t_i, and cells, a word cell first: previous [U], update z, reset r, proposal, next.
 */
export function inspect(model, search, source, decode, { ids = [], hidden = [] } = {}) {
  if (hidden.length >= source.ids.length) throw new Error("hidden: expected a visible source token, found none.");
  const mask = hidden.length ? Uint8Array.from(source.ids, (_, j) => hidden.includes(j)) : null;
  const memory = model.encode(source.ids, mask);
  const longest = Math.max(maxLength(memory.length, search), ids.length && ids.length + 1);
  const history = [];
  const named = (token) => {
    const surface = decode([...history, token.id]).surfaces.at(-1);
    return { ...token, surface: surface || (token.id === END ? "" : "…") }; // "…" is a copy that the source lacks
  };
  const steps = [];
  let states = model.initialState(memory);
  while (history.length < longest && history.at(-1) !== END) {
    const values = { cells: [] };
    const record = (name, value) => (name === "cell" ? values.cells.push(value) : (values[name] = value));
    const { logits, states: following } = model.step([history.at(-1) ?? START], states, memory, record);
    const next = candidates(logits, history, { ...search, beam_size: SHOWN }).slice(0, SHOWN);
    const [chosen] = ids.length > steps.length ? candidates(logits, history, search, ids[steps.length]) : next;
    steps.push({ ...named(chosen), next: next.map(named), values });
    history.push(chosen.id);
    states = following;
  }
  const { surfaces, truncated } = source;
  const { text } = decode(history);
  return { decoder: model.config.decoder, source: surfaces, annotations: memory.annotations, steps, text, truncated };
}
