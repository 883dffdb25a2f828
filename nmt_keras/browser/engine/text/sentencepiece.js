/**
 * SentencePiece: unigram and character models with byte fallback, as nmt_keras trains them, for normalised text. A
 * space is "▁", and one precedes the text.
 */

import { END, UNK } from "../search.js";
import { fromUtf8, utf8 } from "./rules.js";

const SPACE = "▁";
const UNKNOWN_PENALTY = 10;
const SIGN_SCORE = -0.1; // of a piece that the trainer was given

export class SentencePiece {
  /** Takes the texts and scores of V pieces, and the characters that stand for placeholders. */
  constructor(pieces, signs) {
    this.signs = signs;
    this.texts = pieces.map(([text]) => text);
    this.scores = pieces.map(([text, score]) => (signs.includes(text) ? SIGN_SCORE : Math.fround(score)));
    const values = this.texts.map((text) => /^<0x(..)>$/u.exec(text)?.[1] ?? null);
    this.bytes = values.map((value) => value && parseInt(value, 16)); // of pieces such as <0x41>; null for others
    const ids = [...this.texts.keys()].filter((id) => id > END && this.bytes[id] === null);
    this.ids = new Map(ids.map((id) => [this.texts[id], id]));
    this.longest = ids.reduce((most, id) => Math.max(most, [...this.texts[id]].length), 0);
    this.unknownScore = Math.fround(ids.reduce((least, id) => Math.min(least, this.scores[id]), 0) - UNKNOWN_PENALTY);
  }

  /** Returns true if a word is a piece. */
  has(word) {
    return this.ids.has(SPACE + word);
  }

  /**
   * Returns the pieces of a normalised sentence with the largest sum of scores (Kudo 2018, section 3.2), without END.
   * As in SentencePiece, sums are rounded to float32 when they are stored, and the first of equal sums is kept.
   */
  encode(text) {
    if (text === "") return [];
    const characters = [...(SPACE + text).replaceAll(" ", SPACE)];
    const best = Array.from({ length: characters.length + 1 }, () => ({ sum: 0, begin: -1, id: -1 }));
    for (let begin = 0; begin < characters.length; begin++) {
      const { sum } = best[begin];
      const offer = (end, id, score) => {
        const place = best[end];
        if (place.begin >= 0 && sum + score <= place.sum) return;
        best[end] = { sum: Math.fround(sum + score), begin, id };
      };
      let piece = "";
      for (let end = begin + 1; end <= Math.min(begin + this.longest, characters.length); end++) {
        piece += characters[end - 1];
        const id = this.ids.get(piece);
        if (id !== undefined) offer(end, id, this.scores[id]);
        else if (end === begin + 1) offer(end, UNK, Math.fround(sum + this.unknownScore) - sum);
      }
    }
    const found = [];
    for (let end = characters.length; end > 0; end = best[end].begin) {
      const { id, begin } = best[end];
      found.push(id === UNK ? Array.from(utf8(characters[begin]), (byte) => this.bytes.indexOf(byte)) : [id]);
    }
    return found.reverse().flat();
  }

  /** Returns the placeholder k that each token is, -1 for others. */
  placeholders(ids) {
    return ids.map((id) => this.signs.indexOf(this.texts[id]));
  }

  /** Returns the text of the T tokens before the first END. `replacements` [T] are words instead of tokens, or "". */
  decode(ids, replacements) {
    const end = ids.indexOf(END);
    const kept = ids.slice(0, end < 0 ? ids.length : end);
    const bytes = kept.flatMap((id, t) => [...(replacements[t] ? utf8(replacements[t]) : this.#spelling(id, " "))]);
    return fromUtf8(bytes[0] === 0x20 ? bytes.slice(1) : bytes);
  }

  /**
   * Returns the text of each token, with "▁" for the space before a word. The first byte of a character that is encoded
   * as bytes has the character, and its other bytes have "". For `replacements`, see `decode`.
   */
  surfaces(ids, replacements) {
    const spelt = ids.map((id) => [...this.#spelling(id, SPACE)]);
    const continues = spelt.map((bytes, t) => t > 0 && bytes.length === 1 && bytes[0] >> 6 === 0b10);
    for (let t = ids.length - 1; t > 0; t--) if (continues[t]) spelt[t - 1].push(...spelt[t].splice(0));
    return spelt.map((bytes, t) => replacements[t] || fromUtf8(bytes));
  }

  /** Returns the bytes of a token, with `space` for "▁". */
  #spelling(id, space) {
    if (id === UNK) return utf8("⁇");
    if (id <= END || this.signs.includes(this.texts[id])) return [];
    return this.bytes[id] === null ? utf8(this.texts[id].replaceAll(SPACE, space)) : [this.bytes[id]];
  }
}
