/** A translator: tokenizers, model and search. */

import { inspect } from "./inspect.js";
import { Model } from "./model.js";
import { beamSearch } from "./search.js";
import { Codec } from "./text/codec.js";
import { Rules } from "./text/rules.js";
import { translateSentences } from "./text/sentences.js";
import { readWeights } from "./weights.js";

export class Translator {
  #rules;
  #codec;
  #searches;

  /**
   * @param {object} facts `recipe.model`, `search`, `rules`, and for `source` and `target` `max_tokens` and `known_words`
   * @param {{weights: ArrayBuffer, source: Uint8Array, target: Uint8Array}} assets named weights and tokenizers
   */
  constructor({ recipe, search, source, target, rules }, assets) {
    this.#rules = new Rules(rules);
    this.#codec = new Codec(this.#rules, source, target, assets);
    this.model = new Model(recipe.model, readWeights(assets.weights));
    const greedy = { ...search, beam_size: 1, n_best: null };
    const beam = search.beam_size > 1 ? search : { ...greedy, beam_size: rules.limits.beamSize };
    this.#searches = {
      align: [greedy, 1],
      beam: [beam, beam.n_best ?? beam.beam_size],
      text: [search, 1],
    };
  }

  /**
   * Translates a sentence as the signature of that name does: "align" or "beam".
   *
   * @returns {Answer} see serve/web/service.js
   */
  translate(signature, text) {
    const source = this.#codec.encodeSource(text);
    const hypotheses = source.hasWords ? this.#search(source, ...this.#searches[signature]) : [copied(source)];
    const texts = hypotheses.map((hypothesis) => hypothesis.text);
    return {
      sourceTokens: source.surfaces,
      truncated: source.truncated,
      hypotheses: hypotheses.filter(({ text }, k) => texts.indexOf(text) === k),
    };
  }

  /**
   * Translates a text of several sentences with the default search.
   *
   * @returns {TextAnswer | null} see serve/web/service.js; null for one sentence
   */
  translateText(text) {
    return translateSentences(this.#rules, text, (sentence) => {
      const { hypotheses, truncated } = this.translate("text", sentence);
      return { text: hypotheses[0].text, truncated };
    });
  }

  /**
   * Traces the greedy translation of a text, or of its first sentence.
   *
   * @returns {Trace | null} see `inspect`, with the number of sentences, 0 for one; null if it has no words
   */
  inspect(text, options) {
    const sentences = [];
    translateSentences(this.#rules, text, (sentence) => ({ text: sentence, truncated: !sentences.push(sentence) }));
    const source = this.#codec.encodeSource(sentences[0] ?? text);
    const decode = (ids) => this.#codec.decode(ids, source);
    const found = source.hasWords && inspect(this.model, this.#searches.align[0], source, decode, options);
    return found ? { ...found, sentences: sentences.length } : null;
  }

  #search(source, config, nBest) {
    const { decoder } = this.model;
    return beamSearch(decoder, this.model.encode(source.ids), config, { nBest }).map((hypothesis) => {
      const { text, surfaces } = this.#codec.decode(hypothesis.ids, source);
      const weights = hypothesis.alignment.map((row) => [...row]);
      return { text, score: hypothesis.score, logProb: hypothesis.logProb, tokens: surfaces, weights };
    });
  }
}

/** Returns the translation of a sentence without words: its own tokens, aligned one to one, with probability 1. */
function copied({ text, surfaces }) {
  const weights = surfaces.map((_, t) => surfaces.map((_, s) => Number(s === t)));
  return { text, score: 0, logProb: 0, tokens: surfaces, weights };
}
