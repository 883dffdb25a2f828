/**
 * Beam search for one sentence. Greedy search is a beam of one hypothesis.
 *
 * The decoder is anything with `initialState(memory)`, `step(ids, state, memory)` and `select(state, chosen)`.
 */

export const [PAD, UNK, START, END] = [0, 1, 2, 3];

/**
 * @typedef {object} Hypothesis
 * @property {number[]} ids tokens, ending in END unless the maximum length was reached
 * @property {number} logProb nats: the sum over the tokens
 * @property {number} score log-probability after length normalisation and coverage penalty
 * @property {Float32Array[]} alignment [T][S] alpha_ij
 *
 * @typedef {object} SearchConfig the fields of a recipe's `search`
 * @property {number} beam_size Q
 * @property {"plain" | "gnmt"} length_normalisation
 * @property {number} length_alpha
 * @property {number} coverage_beta
 * @property {number} min_tokens
 * @property {number} max_tokens
 * @property {boolean} unk_allowed
 */

/** Returns lp(Y) for a length |Y|: |Y|^alpha, or ((5 + |Y|) / 6)^alpha (Wu et al. 2016, equation 14). */
function lengthPenalty(config, length) {
  return (config.length_normalisation === "gnmt" ? (5 + length) / 6 : length) ** config.length_alpha;
}

/** Returns s(Y, X) = log P(Y | X) / lp(Y) + beta SUM_j log(min(SUM_i alpha_ij, 1)). */
function scoreOf({ ids, logProb, alignment }, config) {
  let score = logProb / lengthPenalty(config, ids.length);
  if (config.coverage_beta) {
    for (let j = 0; j < alignment[0].length; j++) {
      const covered = alignment.reduce((sum, row) => sum + row[j], 0);
      score += config.coverage_beta * Math.log(Math.min(Math.max(covered, 1e-37), 1));
    }
  }
  return Math.fround(score);
}

/** Returns the maximum length of a translation of a source of `length` tokens, END included on both sides. */
export function maxLength(length, config) {
  return Math.min(Math.max(2 * length + 10, config.min_tokens), config.max_tokens);
}

/**
 * Keeps the Q most probable hypotheses (Sutskever et al. 2014, section 3.2).
 *
 * A hypothesis that takes END is finished. It keeps one of the Q places, so longer hypotheses cannot displace it, and
 * the search extends one hypothesis fewer. The search ends at the maximum length, or when no unfinished hypothesis can
 * be among the `nBest`. Hypotheses without END rank behind those with END.
 *
 * @param {Decoder} decoder
 * @param {Memory} memory
 * @param {SearchConfig} config
 * @param {{nBest?: number, prefix?: number[]}} [options] number of hypotheses to return; first tokens of each
 * @returns {Hypothesis[]} best first
 */
export function beamSearch(decoder, memory, config, { nBest = 1, prefix = [] } = {}) {
  const longest = Math.max(maxLength(memory.length, config), prefix.length && prefix.length + 1);
  let places = [{ ids: [], logProb: 0, alignment: [], finished: false }];
  let state = decoder.initialState(memory);
  for (let position = 0; ; ) {
    const unfinished = places.filter(({ finished }) => !finished);
    const prediction = decoder.step(unfinished.map(({ ids }) => ids.at(-1) ?? START), state, memory);
    const rows = new Map(unfinished.map((hypothesis, row) => [hypothesis, row]));
    const chosen = choose(places, rows, prediction.logits, config, prefix[position] ?? PAD);
    places = chosen.map((candidate) => extended(candidate, rows, prediction.alignment, memory.length));
    const parents = chosen.flatMap(({ parent }, place) => (places[place].finished ? [] : [rows.get(parent)]));
    position += 1;
    if (parents.length === 0 || position >= longest || isDecided(places, config, nBest, longest)) break;
    state = decoder.select(prediction.state, parents);
  }
  return ranked(places, config).slice(0, nBest);
}

/** Returns the Q most probable continuations. A finished hypothesis has one: itself. */
function choose(places, rows, logits, config, forced) {
  const V = logits.length / rows.size;
  const found = places.flatMap((parent) => {
    if (parent.finished) return [{ parent, id: PAD, logProb: parent.logProb, priority: Infinity }];
    const row = rows.get(parent);
    return candidates(logits.subarray(row * V, (row + 1) * V), parent.ids, config, forced).map(({ id, logProb }) => {
      const sum = Math.fround(parent.logProb + logProb);
      return { parent, id, logProb: sum, priority: sum };
    });
  });
  return found.sort((a, b) => (a.priority === b.priority ? 0 : b.priority - a.priority)).slice(0, config.beam_size);
}

/** Returns a hypothesis with its next token. */
function extended({ parent, id, logProb }, rows, alignment, S) {
  if (parent.finished) return parent;
  const begin = rows.get(parent) * S;
  return {
    ids: [...parent.ids, id],
    logProb,
    alignment: [...parent.alignment, alignment.subarray(begin, begin + S)],
    finished: id === END,
  };
}

/**
 * Returns true if no unfinished hypothesis can be one of the `nBest`.
 *
 * A continuation Z of Y has log P(Z) <= log P(Y) <= 0, a length penalty of at most that of the maximum length, and a
 * coverage penalty of at best 0. So its score is at most log P(Y) / lp(maximum length).
 */
function isDecided(places, config, nBest, longest) {
  if (config.beam_size === 1) return false;
  const best = Math.max(...places.filter(({ finished }) => !finished).map(({ logProb }) => logProb));
  const scores = places.filter(({ finished }) => finished).map((hypothesis) => scoreOf(hypothesis, config));
  const worst = scores.sort((a, b) => b - a)[nBest - 1];
  return worst !== undefined && Math.fround(best / lengthPenalty(config, longest)) <= worst;
}

/** Returns hypotheses by score, those with END first. */
function ranked(places, config) {
  return places
    .map((hypothesis) => ({ ...hypothesis, score: scoreOf(hypothesis, config) }))
    .sort((a, b) => b.finished - a.finished || b.score - a.score);
}

/**
 * Returns the most probable tokens that a hypothesis may take, with their log-probabilities. PAD and START are never
 * chosen. Log-probabilities are not renormalised over the allowed tokens.
 */
export function candidates(logits, history, config, forced) {
  let total = 0;
  const peak = logits.reduce((largest, logit) => (logit > largest ? logit : largest), -Infinity);
  for (let id = 0; id < logits.length; id++) total += Math.exp(logits[id] - peak);
  const logTotal = peak + Math.log(total);
  if (forced !== PAD) return [{ id: forced, logProb: logits[forced] - logTotal }];

  const allows = (id) =>
    id !== PAD &&
    id !== START &&
    (config.unk_allowed || id !== UNK) &&
    (id !== END || history.length + 1 >= config.min_tokens);
  const forbidden = 2 + !config.unk_allowed + (config.min_tokens > 1);
  return topK(logits, config.beam_size + forbidden)
    .filter(allows)
    .map((id) => ({ id, logProb: logits[id] - logTotal }));
}

/** Returns the indices of the k largest values, descending. The first of equal values comes first. */
function topK(values, k) {
  const best = [];
  let least = -Infinity;
  for (let id = 0; id < values.length; id++) {
    if (best.length === k && values[id] <= least) continue;
    let place = best.length;
    while (place > 0 && values[best[place - 1]] < values[id]) place--;
    best.splice(place, 0, id);
    if (best.length > k) best.pop();
    least = values[best.at(-1)];
  }
  return best;
}
