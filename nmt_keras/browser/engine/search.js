/** Beam search for one sentence. Greedy search is a beam of one hypothesis. */

export const [PAD, UNK, START, END] = [0, 1, 2, 3];

/** Returns lp(Y) for a length |Y|: |Y|^alpha, or ((5 + |Y|) / 6)^alpha (Wu et al. 2016, equation 14). */
function lengthPenalty(config, length) {
  return (config.length_normalisation === "gnmt" ? (5 + length) / 6 : length) ** config.length_alpha;
}

/** Returns s(Y, X) = log P(Y | X) / lp(Y) + beta SUM_j log(min(SUM_i alpha_ij, 1)). */
function scoreOf({ ids, logProb, alignment }, config) {
  let score = logProb / lengthPenalty(config, ids.length);
  for (let j = 0; config.coverage_beta && j < alignment[0].length; j++) {
    const covered = alignment.reduce((sum, row) => sum + row[j], 0);
    score += config.coverage_beta * Math.log(Math.min(Math.max(covered, 1e-37), 1));
  }
  return Math.fround(score);
}

/** Returns the maximum length of a translation of a source of `length` tokens, END included on both sides. */
export function maxLength(length, config) {
  return Math.min(Math.max(2 * length + 10, config.min_tokens), config.max_tokens);
}

/**
 * Keeps the Q most probable hypotheses (Sutskever et al. 2014, section 3.2). `config` is a recipe's `search`.
 *
 * A hypothesis that takes END is finished. It keeps one of the Q places, so longer hypotheses cannot displace it, and
 * the search extends one hypothesis fewer. The search ends at the maximum length, or when no unfinished hypothesis can
 * be among the `nBest`. Hypotheses without END, at the maximum length, rank behind those with END.
 *
 * Returns the `nBest`, best first: ids [T], their logProb in nats, score, and alignment alpha_ij [T][S].
 */
export function beamSearch(model, memory, config, nBest) {
  const [S, longest] = [memory.length, maxLength(memory.length, config)];
  const finished = [];
  let unfinished = [{ ids: [], logProb: 0, alignment: [] }];
  let states = model.initialState(memory);
  for (let length = 1; ; length++) {
    const step = model.step(unfinished.map(({ ids }) => ids.at(-1) ?? START), states, memory);
    const V = step.logits.length / unfinished.length;
    const extended = unfinished.flatMap((parent, row) => {
      const alignment = [...parent.alignment, step.alignment.subarray(row * S, (row + 1) * S)];
      return candidates(step.logits.subarray(row * V, (row + 1) * V), parent.ids, config).map(({ id, logProb }) => {
        return { ids: [...parent.ids, id], logProb: Math.fround(parent.logProb + logProb), alignment, row };
      });
    });
    const best = extended.sort((a, b) => b.logProb - a.logProb).slice(0, config.beam_size - finished.length);
    finished.push(...best.filter(isFinished));
    unfinished = best.filter((hypothesis) => !isFinished(hypothesis));
    if (!unfinished.length || length >= longest || isDecided(finished, unfinished, config, nBest, longest)) break;
    states = model.select(step.states, unfinished.map(({ row }) => row));
  }
  return [...ranked(finished, config), ...ranked(unfinished, config)].slice(0, nBest);
}

const isFinished = ({ ids }) => ids.at(-1) === END;

/** Returns hypotheses with their scores, best first. */
function ranked(hypotheses, config) {
  const scored = hypotheses.map((hypothesis) => ({ ...hypothesis, score: scoreOf(hypothesis, config) }));
  return scored.sort((a, b) => b.score - a.score);
}

/**
 * Returns true if no unfinished hypothesis can be one of the `nBest`. A continuation Z of Y has log P(Z) <= log P(Y),
 * at most the penalty of the maximum length, and no gain from coverage: its score is at most log P(Y) / lp(maximum).
 */
function isDecided(finished, unfinished, config, nBest, longest) {
  if (finished.length < nBest) return false;
  const best = Math.max(...unfinished.map(({ logProb }) => logProb));
  return Math.fround(best / lengthPenalty(config, longest)) <= ranked(finished, config)[nBest - 1].score;
}

/**
 * Returns the most probable tokens that a hypothesis may take, or only the token `forced`, with log-probabilities that
 * are not renormalised over the allowed tokens. PAD and START are never chosen.
 */
export function candidates(logits, history, config, forced = null) {
  let total = 0;
  const peak = logits.reduce((largest, logit) => (logit > largest ? logit : largest), -Infinity);
  for (let id = 0; id < logits.length; id++) total += Math.exp(logits[id] - peak);
  const logTotal = peak + Math.log(total);
  const forbidden = [PAD, START];
  if (!config.unk_allowed) forbidden.push(UNK);
  if (history.length + 1 < config.min_tokens) forbidden.push(END);
  const best = forced === null ? topK(logits, config.beam_size + forbidden.length) : [forced];
  const allowed = best.filter((id) => id === forced || !forbidden.includes(id));
  return allowed.map((id) => ({ id, logProb: logits[id] - logTotal }));
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
