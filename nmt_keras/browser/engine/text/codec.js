/** Encodes source sentences, and decodes translations: tokenizers, placeholders and capitals. */

import { END } from "../search.js";
import { inOrder, Placeholders } from "./placeholders.js";
import { SentencePiece } from "./sentencepiece.js";

export class Codec {
  /** Takes the rules, and the facts of the tokenizers; see nmt_keras/browser/writing.py. */
  constructor(rules, source, target) {
    this.rules = rules;
    this.maxTokens = source.max_tokens;
    this.source = new SentencePiece(source.pieces, rules.signs);
    this.target = new SentencePiece(target.pieces, rules.signs);
    const hasPlaceholders = source.known_words && target.known_words;
    this.placeholders = hasPlaceholders ? new Placeholders(rules, source.known_words) : null;
  }

  /**
   * Encodes a sentence to translate: S tokens, of which the last is END, their surfaces as the user wrote them, the
   * normalised text, and the words to copy, null for vocabularies without placeholders. `truncated` is true if a limit
   * of tokens or bytes cut the sentence, and `capitals` if it is, and its translation will be, in capitals.
   */
  encodeSource(sentence) {
    const { text, cut } = this.rules.normalise(sentence, this.maxTokens);
    const capitals = this.rules.inCapitals(text);
    const lower = capitals ? this.rules.toLower(text) : text;
    const { copies, marked } = this.placeholders?.find(lower, this.maxTokens) ?? { copies: null, marked: lower };
    const pieces = this.source.encode(marked);
    const ids = [...pieces.slice(0, this.maxTokens - 1), END];
    const words = this.source.placeholders(ids).map((k) => (copies?.[k]?.certain ? copies[k].word : ""));
    const read = this.source.surfaces(ids, words);
    const surfaces = capitals ? read.map((surface) => this.rules.toUpper(surface, text)) : read;
    const truncated = cut || pieces.length >= this.maxTokens;
    return { ids, surfaces, truncated, text, copies, capitals, hasWords: this.rules.is("letters", marked) };
  }

  /** Returns the text and the surfaces [T] of a translation, T tokens, of an encoded sentence. */
  decode(ids, { copies, capitals }) {
    const numbers = copies === null ? ids.map(() => -1) : inOrder(this.rules, this.target.placeholders(ids), copies);
    const text = this.target.decode(ids, numbers.map((k) => copies?.[k]?.written ?? ""));
    const surfaces = this.target.surfaces(ids, numbers.map((k) => copies?.[k]?.word ?? ""));
    const written = (part) => (capitals ? this.rules.toUpper(part, "") : part);
    return { text: written(this.rules.apply("joined", text)), surfaces: surfaces.map(written) };
  }
}
