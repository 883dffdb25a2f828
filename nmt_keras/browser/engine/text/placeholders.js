/** Placeholders: names, numbers and addresses that the model copies; see nmt_keras/text/placeholders.py. */

import { toLower } from "./capitals.js";
import { utf8 } from "./rules.js";

/**
 * @typedef {object} Copy a word to copy
 * @property {string} word
 * @property {string} written as translations contain it before `joined`
 * @property {boolean} certain false if the model may translate it
 */

/** A sentence as parts: those at odd positions are words, the others are the characters between them. */
export class Words {
  #rules;

  /**
   * @param {Rules} rules
   * @param {string} text normalised
   * @param {number} maxWords number of words after which the sentence is cut
   */
  constructor(rules, text, maxWords) {
    this.#rules = rules;
    this.parts = rules.apply("divided", text).split(rules.separator).slice(0, 2 * maxWords + 1);
  }

  /** Returns true if a word does not begin a sentence. */
  isInside(n) {
    return n > 1 && this.#rules.is("inside", this.parts[n - 1]);
  }

  /** Returns `middle`, with `left` and `right` on the sides on which markup at position n touches a word. */
  beside(n, middle, left, right) {
    if (!this.#rules.is("markup", this.parts[n])) return middle;
    const [before, after] = [this.parts[n - 1] === "" && n > 1, this.parts[n + 1] === "" && n + 2 < this.parts.length];
    return (before ? left : "") + middle + (after ? right : "");
  }

  /**
   * Returns the sentence with placeholders in place of copied words.
   *
   * @param {Copy[]} copies
   * @param {boolean} keepsUncertain if true, a word that the model may translate is kept, before its placeholder
   */
  marked(copies, keepsUncertain) {
    const seen = new Map();
    const marked = this.parts.map((part, n) => {
      const equal = n % 2 ? [...copies.keys()].filter((k) => copies[k].word === part) : [];
      if (equal.length === 0) return part;
      const count = seen.get(part) ?? 0;
      seen.set(part, count + 1);
      const k = equal[Math.min(count, equal.length - 1)]; // equal words have placeholders of their own
      const sign = this.beside(n, this.#rules.signs[k], " ", " ");
      return keepsUncertain && !copies[k].certain ? part + sign : sign;
    });
    return marked.join("").replace(/ +/gu, " ");
  }
}

const [KNOWN, UNCOPIED] = [1, 2];

/** Finds the words to copy of a sentence. */
export class Placeholders {
  #rules;
  #marksNames;
  #flags;

  /**
   * @param {Rules} rules
   * @param {object} known the file of known words of the source
   */
  constructor(rules, { words, capitals_mark_names: marksNames, uncopied = [], uncopied_shapes: shapes = [] }) {
    this.#rules = rules;
    this.#marksNames = marksNames;
    this.#flags = new Map(["", ...words].map((word) => [word, KNOWN]));
    const common = new Set(words.map((word) => word.toLowerCase()));
    for (const key of [...uncopied, ...shapes.map((shape) => rules.separator + shape)]) {
      this.#flags.set(key, (this.#flags.get(key) ?? (common.has(key) ? KNOWN : 0)) | UNCOPIED);
    }
  }

  /**
   * Returns the words of a sentence that are copied, one for each placeholder at most.
   *
   * @param {Words} words
   * @returns {Copy[]}
   */
  find(words) {
    const found = [];
    for (let n = 1; n < words.parts.length && found.length < this.#rules.signs.length; n += 2) {
      const word = words.parts[n];
      const certain = this.#isCertain(words, n, word);
      const [left, right] = this.#rules.sides;
      if (certain !== null) found.push({ word, written: words.beside(n, word, left, right), certain });
    }
    return found;
  }

  /** Returns true or false for a word that is copied or may be; null for other words. */
  #isCertain(words, n, word) {
    const rules = this.#rules;
    if (utf8(word).length > rules.limits.copiedBytes) return null;
    const other = rules.is("markup", word) || rules.is("foreign", word);
    if (!other && [...word].length < 2) return null;
    const isForm = other || rules.is("form", word);
    const flagsOf = (key) => this.#flags.get(key) ?? 0;
    const flags = flagsOf(word) | flagsOf(toLower(rules, word));
    const [isKnown, isMissing] = [KNOWN, UNCOPIED].map((flag) => (flags & flag) !== 0);
    if (isForm) {
      const isText = flagsOf(rules.separator + rules.apply("shape", word)) !== 0 || (isKnown && isMissing);
      return isText ? null : !isMissing;
    }
    if (!this.#marksNames || isKnown || !rules.is("name", word)) return null;
    return words.isInside(n) && !isMissing;
  }
}

/** Returns placeholders k of a translation, whose positional variables, such as %s, have the order of the source. */
export function inOrder(rules, numbers, copies) {
  const isPositional = copies.map(({ word }) => rules.is("positional", word));
  const ordered = [...isPositional.keys()].filter((k) => isPositional[k]);
  let rank = 0;
  return numbers.map((k) => (isPositional[k] ? (ordered[rank++] ?? k) : k));
}
