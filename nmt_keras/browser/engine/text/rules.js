/** The text rules of the graph. Their patterns are those of Python, written for JavaScript by nmt_keras/browser/rules.py. */

export class Rules {
  #steps;
  #forms;

  /** @param {object} written `text_rules` */
  constructor({ steps, forms, caseless, ...constants }) {
    const each = (parts, change) => Object.fromEntries(Object.entries(parts).map(([name, part]) => [name, change(part)]));
    this.#steps = each(steps, (pairs) => pairs.map(([pattern, by]) => [new RegExp(pattern, "gu"), by]));
    this.#forms = each(forms, (pattern) => new RegExp(pattern, "u"));
    const newer = [...caseless].filter((letter) => letter.toLowerCase() !== letter || letter.toUpperCase() !== letter);
    this.caseless = new RegExp(`([${newer.join("")}])`, "u");
    Object.assign(this, constants);
  }

  /** Returns a text after the replacements of `name`, in their order. */
  apply(name, text) {
    return this.#steps[name].reduce((found, [pattern, by]) => found.replace(pattern, by), text);
  }

  /** Returns true if the whole text has the form `name`; false for a form without a pattern. */
  is(name, text) {
    return this.#forms[name]?.test(text) ?? false;
  }
}

export const utf8 = (text) => new TextEncoder().encode(text);
/** Invalid bytes become U+FFFD, as in ICU. */
export const fromUtf8 = (bytes) => new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);

/** Returns the first `limit` bytes of a text, and true if bytes were cut. Lone surrogates become U+FFFD. */
export function cutBytes(text, limit) {
  const bytes = utf8(text);
  const cut = bytes.length > limit;
  const whole = fromUtf8(bytes.subarray(0, limit));
  return { text: cut ? whole.replace(/\ufffd$/u, "") : whole, cut }; // the cut can divide a character
}

/** Returns a normalised sentence of at most so many bytes for each token, and true if bytes were cut. */
export function normalise(rules, text, maxTokens) {
  const limit = rules.limits.bytesPerToken * maxTokens;
  const before = cutBytes(text, limit);
  const after = cutBytes(rules.apply("normalised", before.text).normalize("NFC"), limit);
  return { text: after.text.trim(), cut: before.cut || after.cut };
}
