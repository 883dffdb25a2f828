/** Encodes source sentences, and decodes translations: tokenizers, placeholders and capitals. */

import { END } from "../search.js";
import { inCapitals, toLower, toUpper } from "./capitals.js";
import { inOrder, Placeholders, Words } from "./placeholders.js";
import { normalise } from "./rules.js";
import { SentencePiece } from "./sentencepiece.js";

/**
 * @typedef {object} Tokens
 * @property {number[]} ids S tokens; the last is END
 * @property {string[]} surfaces [S] as the user wrote them
 * @property {boolean} truncated true if the limit of tokens or bytes truncated the sentence
 * @property {string} text the normalised sentence
 *
 * @typedef {Tokens & {copies: Copy[] | null, capitals: boolean, hasWords: boolean}} Source
 */

export class Codec {
  #rules;
  #source;
  #target;
  #placeholders = null;

  /**
   * @param {Rules} rules
   * @param {{max_tokens: number, known_words: object | null}} source
   * @param {{max_tokens: number, known_words: object | null}} target
   * @param {{source: Uint8Array, target: Uint8Array}} models SentencePiece models
   */
  constructor(rules, source, target, models) {
    this.#rules = rules;
    const side = (config, model) => ({ maxTokens: config.max_tokens, pieces: new SentencePiece(model, rules.signs) });
    this.#source = side(source, models.source);
    this.#target = side(target, models.target);
    if (source.known_words && target.known_words) this.#placeholders = new Placeholders(rules, source.known_words);
  }

  /**
   * Encodes a sentence to translate.
   *
   * @returns {Source}
   */
  encodeSource(text) {
    const sentence = this.#read(text, this.#source);
    const copies = this.#placeholders?.find(sentence.words()) ?? null;
    const marked = copies === null ? sentence.lower : sentence.words().marked(copies, true);
    const words = copies?.map(({ word, certain }) => (certain ? word : ""));
    const hasWords = this.#rules.is("letters", marked);
    return { ...this.#tokens(sentence, this.#source, marked, words), copies, capitals: sentence.capitals, hasWords };
  }

  /**
   * Encodes a translation of `source`, or its beginning.
   *
   * @returns {Tokens}
   */
  encodeTarget(text, { copies, capitals }) {
    const sentence = this.#read(text, this.#target, capitals);
    const marked = copies === null ? sentence.lower : sentence.words().marked(copies, false);
    return this.#tokens(sentence, this.#target, marked, copies?.map(({ word }) => word));
  }

  /**
   * Decodes a translation.
   *
   * @param {number[]} ids T tokens
   * @param {Source} source
   * @returns {{text: string, surfaces: string[]}} the sentence, and the surfaces of its tokens [T]
   */
  decode(ids, { copies, capitals }) {
    const { pieces } = this.#target;
    const numbers = copies === null ? ids.map(() => -1) : inOrder(this.#rules, pieces.placeholders(ids), copies);
    const text = pieces.decode(ids, numbers.map((k) => copies?.[k]?.written ?? ""));
    const surfaces = pieces.surfaces(ids, numbers.map((k) => copies?.[k]?.word ?? ""));
    const written = (part) => (capitals ? toUpper(this.#rules, part) : part);
    return { text: written(this.#rules.apply("joined", text)), surfaces: surfaces.map(written) };
  }

  /** Returns a normalised sentence, and the sentence in the case in which the model reads it. */
  #read(text, { maxTokens }, allowsCapitals = true) {
    const normalised = normalise(this.#rules, text, maxTokens);
    const capitals = allowsCapitals && inCapitals(this.#rules, normalised.text);
    const lower = capitals ? toLower(this.#rules, normalised.text) : normalised.text;
    let words;
    return { ...normalised, capitals, lower, words: () => (words ??= new Words(this.#rules, lower, maxTokens)) };
  }

  #tokens({ text, cut, capitals }, { pieces, maxTokens }, marked, words) {
    const found = pieces.encode(marked);
    const ids = [...found.slice(0, maxTokens - 1), END];
    const surfaces = pieces.surfaces(ids, pieces.placeholders(ids).map((k) => words?.[k] ?? ""));
    const written = capitals ? surfaces.map((surface) => toUpper(this.#rules, surface, text)) : surfaces;
    return { ids, surfaces: written, truncated: cut || found.length >= maxTokens, text };
  }
}
