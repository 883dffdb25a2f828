/** Placeholders: names, numbers and addresses that the model copies; see nmt_keras/text/placeholders.py. */

import { utf8 } from "./rules.js";

export class Placeholders {
  /** Takes the rules, and the file of known words of the source. */
  constructor(rules, { words, capitals_mark_names: marksNames, uncopied = [], uncopied_shapes: shapes = [] }) {
    const keys = [...uncopied, ...shapes.map((shape) => rules.separator + shape)];
    const common = new Set(words.map((word) => word.toLowerCase()));
    this.rules = rules;
    this.marksNames = marksNames;
    this.known = new Set(["", ...words, ...keys.filter((key) => common.has(key))]);
    this.uncopied = new Set(keys); // words, and shapes after a separator
  }

  /**
   * Returns the words to copy of a normalised sentence of at most `maxWords` words, and the sentence with placeholders
   * in their place. Translations contain a word as `written` before `joined`. The model may translate a word that is
   * not `certain`: it stays, before its placeholder.
   */
  find(text, maxWords) {
    const { separator, sides, signs } = this.rules;
    const divided = this.rules.apply("divided", text).split(separator);
    const parts = divided.slice(0, 2 * maxWords + 1); // odd positions hold words, the others gaps
    const copies = [];
    for (let n = 1; n < parts.length && copies.length < signs.length; n += 2) {
      const word = parts[n];
      const certain = this.#isCertain(parts, n);
      if (certain !== null) copies.push({ word, written: this.#beside(parts, n, word, ...sides), certain });
    }
    return { copies, marked: this.#marked(parts, copies) };
  }

  /** Returns true for a word of the training data. */
  knows(word) {
    return this.known.has(word) || this.known.has(this.rules.toLower(word));
  }

  #marked(parts, copies) {
    const seen = new Map();
    const marked = parts.map((part, n) => {
      const equal = n % 2 ? [...copies.keys()].filter((k) => copies[k].word === part) : [];
      if (equal.length === 0) return part;
      const count = seen.get(part) ?? 0;
      seen.set(part, count + 1);
      const k = equal[Math.min(count, equal.length - 1)]; // equal words have placeholders of their own
      const sign = this.#beside(parts, n, this.rules.signs[k], " ", " ");
      return copies[k].certain ? sign : part + sign;
    });
    return marked.join("").replace(/ +/gu, " ");
  }

  /** Returns `middle`, with `left` and `right` on the sides on which markup at position n touches a word. */
  #beside(parts, n, middle, left, right) {
    if (!this.rules.is("markup", parts[n])) return middle;
    const [before, after] = [parts[n - 1] === "" && n > 1, parts[n + 1] === "" && n + 2 < parts.length];
    return (before ? left : "") + middle + (after ? right : "");
  }

  /** Returns true or false for a word that is copied or may be; null for other words. */
  #isCertain(parts, n) {
    const [rules, word] = [this.rules, parts[n]];
    if (utf8(word).length > rules.limits.copiedBytes) return null;
    const other = rules.is("markup", word) || rules.is("foreign", word);
    if (!other && [...word].length < 2) return null;
    const isKnown = this.knows(word);
    const isMissing = this.uncopied.has(word) || this.uncopied.has(rules.toLower(word));
    if (other || rules.is("form", word)) {
      const isText = this.uncopied.has(rules.separator + rules.apply("shape", word)) || (isKnown && isMissing);
      return isText ? null : !isMissing;
    }
    if (!this.marksNames || isKnown || !rules.is("name", word)) return null;
    const isInside = n > 1 && rules.is("inside", parts[n - 1]); // it does not begin a sentence
    return isInside && !isMissing;
  }
}

/** Returns placeholders k of a translation, whose positional variables, such as %s, have the order of the source. */
export function inOrder(rules, numbers, copies) {
  const isPositional = copies.map(({ word }) => rules.is("positional", word));
  const ordered = [...isPositional.keys()].filter((k) => isPositional[k]);
  let rank = 0;
  return numbers.map((k) => (isPositional[k] ? (ordered[rank++] ?? k) : k));
}
