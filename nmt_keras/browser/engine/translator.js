/** A translator: tokenizers, model and search. */

import { inspect } from "./inspect.js";
import { Model } from "./model.js";
import { beamSearch } from "./search.js";
import { Codec } from "./text/codec.js";
import { Rules } from "./text/rules.js";
import { translateSentences } from "./text/sentences.js";
import { readWeights } from "./weights.js";

export class Translator {
  /** Takes the facts of nmt_keras/browser/writing.py, and named weights as an ArrayBuffer. */
  constructor({ recipe, search, source, target, rules }, weights) {
    this.rules = new Rules(rules);
    this.codec = new Codec(this.rules, source, target);
    this.model = new Model(recipe.model, readWeights(weights));
    const greedy = { ...search, beam_size: 1, n_best: null };
    const beam = search.beam_size > 1 ? search : { ...greedy, beam_size: rules.limits.beamSize };
    this.searches = { align: [greedy, 1], beam: [beam, beam.n_best ?? beam.beam_size], text: [search, 1] };
  }

  /** Returns the Answer (see serve/web/service.js) of a signature, "align" or "beam", to a sentence. */
  translate(signature, text) {
    const source = this.codec.encodeSource(text);
    const { surfaces: sourceTokens, truncated } = source;
    const hypotheses = source.hasWords ? this.#search(source, ...this.searches[signature]) : [copied(source)];
    const texts = hypotheses.map((hypothesis) => hypothesis.text);
    return { sourceTokens, truncated, hypotheses: hypotheses.filter(({ text }, k) => texts.indexOf(text) === k) };
  }

  /** Returns the TextAnswer to a text, with the default search. It does not translate a single sentence. */
  translateText(text) {
    return translateSentences(this.rules, text, (sentence) => {
      const { hypotheses, truncated } = this.translate("text", sentence);
      return { text: hypotheses[0].text, truncated };
    });
  }

  /** Returns a Trace of a text's first sentence, with the number of sentences, 0 for one; null if it has no words. */
  inspect(text, options) {
    const sentences = [];
    const collect = (sentence) => ({ text: sentence, truncated: !sentences.push(sentence) });
    const whole = translateSentences(this.rules, text, collect);
    const source = this.codec.encodeSource(sentences[0] ?? whole.sentence);
    if (!source.hasWords) return null;
    const decode = (ids) => this.codec.decode(ids, source);
    return { ...inspect(this.model, this.searches.align[0], source, decode, options), sentences: sentences.length };
  }

  /**
   * Returns true if at least two words of a text, and more than half, are words of the target's vocabulary that the
   * source's training data lacks. Capitalised words within a text do not count, because they may be names.
   */
  isInTargetLanguage(text) {
    const { rules } = this;
    const { target, placeholders } = this.codec;
    if (placeholders === null) return false;
    const words = (rules.inCapitals(text) ? rules.toLower(text) : text).match(/[\p{L}\p{M}]+/gu) ?? [];
    const counted = words.map((word) => rules.toLower(word)).filter((word, n) => n === 0 || word === words[n]);
    const foreign = counted.filter((word) => target.has(word) && !placeholders.knows(word));
    return foreign.length > 1 && 2 * foreign.length > counted.length;
  }

  #search(source, config, nBest) {
    return beamSearch(this.model, this.model.encode(source.ids), config, nBest).map((hypothesis) => {
      const { text, surfaces: tokens } = this.codec.decode(hypothesis.ids, source);
      const { score, logProb } = hypothesis;
      return { text, score, logProb, tokens, weights: hypothesis.alignment.map((row) => [...row]) };
    });
  }
}

/** Returns the translation of a sentence without words: its own tokens, aligned one to one, with probability 1. */
function copied({ text, surfaces }) {
  const weights = surfaces.map((_, t) => surfaces.map((_, s) => Number(s === t)));
  return { text, score: 0, logProb: 0, tokens: surfaces, weights };
}
