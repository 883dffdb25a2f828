/**
 * SentencePiece: unigram and character models with byte fallback and without normalisation, as nmt_keras trains them.
 *
 * Text is normalised before. A space is "▁", and one precedes the text.
 */

import { END, UNK } from "../search.js";
import { fromUtf8, utf8 } from "./rules.js";

const SPACE = "▁";
/** Kinds of pieces in a model file. */
const [NORMAL, USER_DEFINED, BYTE] = [1, 4, 6];
const UNKNOWN_PENALTY = 10;
const USER_DEFINED_SCORE = -0.1;

export class SentencePiece {
  #signs;
  #pieces;
  #ids = new Map();
  #scores;
  #bytes = new Array(256);
  #unknownScore;
  #longest = 1;

  /**
   * @param {Uint8Array} model the bytes of a model file
   * @param {string[]} signs characters that stand for placeholders
   */
  constructor(model, signs) {
    this.#signs = signs;
    this.#pieces = readPieces(model);
    const normal = this.#pieces.filter(({ kind }) => kind === NORMAL).map(({ score }) => score);
    this.#unknownScore = Math.fround(Math.min(...normal) - UNKNOWN_PENALTY);
    this.#scores = this.#pieces.map(({ kind, score }) => (kind === USER_DEFINED ? USER_DEFINED_SCORE : score));
    for (const [id, { text, kind }] of this.#pieces.entries()) {
      if (kind === BYTE) this.#bytes[parseInt(text.slice(3, 5), 16)] = id;
      if (kind !== NORMAL && kind !== USER_DEFINED) continue;
      this.#ids.set(text, id);
      this.#longest = Math.max(this.#longest, [...text].length);
    }
  }

  /** V, number of pieces. */
  get size() {
    return this.#pieces.length;
  }

  /**
   * Returns the pieces of a normalised sentence with the largest sum of scores (Kudo 2018, section 3.2), without END.
   *
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
      for (let end = begin + 1; end <= Math.min(begin + this.#longest, characters.length); end++) {
        piece += characters[end - 1];
        const id = this.#ids.get(piece);
        if (id !== undefined) offer(end, id, this.#scores[id]);
        else if (end === begin + 1) offer(end, UNK, Math.fround(sum + this.#unknownScore) - sum);
      }
    }
    const found = [];
    for (let end = characters.length; end > 0; end = best[end].begin) {
      const { id, begin } = best[end];
      found.push(id === UNK ? Array.from(utf8(characters[begin]), (byte) => this.#bytes[byte]) : [id]);
    }
    return found.reverse().flat();
  }

  /** Returns the placeholder k that each token is, -1 for others. */
  placeholders(ids) {
    return ids.map((id) => this.#signs.indexOf(this.#pieces[id].text));
  }

  /**
   * Returns the text of the tokens before the first END.
   *
   * @param {number[]} ids
   * @param {string[]} replacements [T] words to write instead of tokens; "" keeps the token
   */
  decode(ids, replacements) {
    const end = ids.indexOf(END);
    const kept = ids.slice(0, end < 0 ? ids.length : end);
    const bytes = kept.flatMap((id, t) => [...(replacements[t] ? utf8(replacements[t]) : this.#written(id))]);
    return fromUtf8(Uint8Array.from(bytes[0] === 0x20 ? bytes.slice(1) : bytes));
  }

  /**
   * Returns the text of each token, with "▁" for the space before a word. The first byte of a character that is encoded
   * as bytes has the character, and its other bytes have "". For `replacements`, see `decode`.
   */
  surfaces(ids, replacements) {
    const groups = [];
    for (const [position, id] of ids.entries()) {
      const bytes = this.#spelling(id);
      const continues = bytes.length === 1 && bytes[0] >> 6 === 0b10;
      if (position > 0 && continues) groups.at(-1).bytes.push(...bytes);
      else groups.push({ position, bytes: [...bytes] });
    }
    const found = ids.map(() => "");
    for (const { position, bytes } of groups) found[position] = fromUtf8(Uint8Array.from(bytes));
    return found.map((surface, t) => replacements[t] || surface);
  }

  /** Returns the bytes of a token's surface. */
  #spelling(id) {
    const { text, kind } = this.#pieces[id];
    if (id === UNK) return utf8("⁇");
    if (id <= END || this.#signs.includes(text)) return [];
    return kind === BYTE ? [parseInt(text.slice(3, 5), 16)] : utf8(text);
  }

  /** Returns the bytes of a token in a sentence. */
  #written(id) {
    const { text, kind } = this.#pieces[id];
    return id > END && kind === NORMAL ? utf8(text.replaceAll(SPACE, " ")) : this.#spelling(id);
  }
}

/**
 * Returns the pieces of a model file, a protocol buffer whose repeated field 1 is the list of pieces: text (field 1),
 * score (field 2), and kind (field 3).
 */
function readPieces(model) {
  const pieces = [];
  for (const { field, value } of fieldsOf(model)) {
    if (field !== 1) continue;
    const piece = { text: "", score: 0, kind: NORMAL };
    for (const { field, value: part } of fieldsOf(value)) {
      if (field === 1) piece.text = fromUtf8(part);
      if (field === 2) piece.score = new DataView(part.buffer, part.byteOffset).getFloat32(0, true);
      if (field === 3) piece.kind = part;
    }
    pieces.push(piece);
  }
  return pieces;
}

/** Yields the fields of a protocol buffer: a number, or the bytes of other values. */
function* fieldsOf(bytes) {
  let position = 0;
  const varint = () => {
    let [value, factor] = [0, 1];
    for (;;) {
      const byte = bytes[position++];
      value += (byte & 127) * factor;
      factor *= 128;
      if (byte < 128) return value;
    }
  };
  while (position < bytes.length) {
    const tag = varint();
    const wire = tag & 7;
    if (wire === 0) {
      yield { field: tag >> 3, value: varint() };
      continue;
    }
    const length = wire === 2 ? varint() : wire === 5 ? 4 : 8;
    yield { field: tag >> 3, value: bytes.subarray(position, position + length) };
    position += length;
  }
}
