/** A translator: tokenizers, model and search. */

import { Model } from "./model.js";
import { beamSearch, END } from "./search.js";
import { SentencePiece } from "./text/sentencepiece.js";
import { readWeights } from "./weights.js";

export class Translator {
  /**
   * @param {object} manifest `recipe.model`, `recipe.source.max_tokens` and `search` of an export
   * @param {{weights: ArrayBuffer, source: Uint8Array, target: Uint8Array}} assets named weights and tokenizers
   */
  constructor(manifest, { weights, source, target }) {
    this.model = new Model(manifest.recipe.model, readWeights(weights));
    this.search = manifest.search;
    this.maxTokens = manifest.recipe.source.max_tokens;
    this.source = new SentencePiece(source);
    this.target = new SentencePiece(target);
  }

  /** Returns the tokens of a normalised sentence, cut at the limit, with END; and true if they were cut. */
  encode(text) {
    const ids = this.source.encode(text);
    return { ids: [...ids.slice(0, this.maxTokens - 1), END], truncated: ids.length >= this.maxTokens };
  }

  /**
   * Translates one sentence.
   *
   * @param {string} text normalised
   * @param {{beamSize?: number, nBest?: number}} [options] defaults: the export's search, the best hypothesis
   */
  translate(text, { beamSize = this.search.beam_size, nBest = 1 } = {}) {
    const { ids, truncated } = this.encode(text);
    const hypotheses = this.translateIds(ids, { beamSize, nBest });
    const written = hypotheses.map((hypothesis) => ({ ...hypothesis, text: this.target.decode(hypothesis.ids) }));
    return { sourceTokens: this.source.surfaces(ids), truncated, hypotheses: written };
  }

  /** Translates source tokens, which end in END. */
  translateIds(ids, { beamSize = this.search.beam_size, nBest = 1 } = {}) {
    const { decoder } = this.model;
    return beamSearch(decoder, this.model.encode(ids), { ...this.search, beam_size: beamSize }, { nBest });
  }
}
