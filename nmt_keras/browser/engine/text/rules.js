/** The text rules of the graph, whose patterns nmt_keras/browser/rules.py has written for JavaScript. */

export class Rules {
  /** @param {object} written result of `text_rules` */
  constructor({ steps, forms, caseless, ...constants }) {
    const each = (parts, change) => new Map(Object.entries(parts).map(([name, part]) => [name, change(part)]));
    this.steps = each(steps, (pairs) => pairs.map(([pattern, by]) => [new RegExp(pattern, "gu"), by]));
    this.forms = each(forms, (pattern) => new RegExp(pattern, "u"));
    const newer = [...caseless].filter((letter) => letter.toLowerCase() !== letter || letter.toUpperCase() !== letter);
    this.caseless = new RegExp(`([${newer.join("")}])`, "u");
    Object.assign(this, constants);
  }

  /** Returns a text after the replacements of `name`, in their order. */
  apply(name, text) {
    return this.steps.get(name).reduce((found, [pattern, by]) => found.replace(pattern, by), text);
  }

  /** Returns true if the whole text has the form `name`; false for a form without a pattern. */
  is(name, text) {
    return this.forms.get(name)?.test(text) ?? false;
  }

  /** Returns true if the letters of a sentence are all capitals, and at least two. The model reads it in lower case. */
  inCapitals(text) {
    return this.is("capitals", text) && this.toUpper(this.toLower(text), text) === text;
  }

  /** Returns a text in lower case. With İ it is Turkish or Azerbaijani, where the small letter of I is ı. */
  toLower(text) {
    const turkish = text.includes("İ") ? text.replaceAll("I", "ı").replaceAll("İ", "i") : text;
    return this.#inCase(turkish, (part) => part.toLowerCase());
  }

  /** Returns a text in capitals. The capital of i is İ if `like` contains İ, and that of ß is ẞ if it contains ẞ. */
  toUpper(text, like) {
    for (const [small, capital] of ["iİ", "ßẞ"]) if (like.includes(capital)) text = text.replaceAll(small, capital);
    return this.#inCase(text, (part) => part.toUpperCase());
  }

  /** Changes the case of a text, but not of letters that have none in the graph, whose Unicode can be older. */
  #inCase(text, change) {
    const parts = text.split(this.caseless);
    return parts.map((part, n) => (n % 2 ? part : change(part))).join("");
  }

  /** Returns a normalised sentence of at most so many bytes for each token, and true if bytes were cut. */
  normalise(text, maxTokens) {
    const limit = this.limits.bytesPerToken * maxTokens;
    const before = cutBytes(text, limit);
    const after = cutBytes(this.apply("normalised", before.text).normalize("NFC"), limit);
    return { text: after.text.trim(), cut: before.cut || after.cut };
  }
}

export const utf8 = (text) => new TextEncoder().encode(text);
/** Invalid bytes become U+FFFD, as in ICU. */
export const fromUtf8 = (bytes) => new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(bytes));

/** Returns the first `limit` bytes of a text, and true if bytes were cut. Lone surrogates become U+FFFD. */
export function cutBytes(text, limit) {
  const bytes = utf8(text);
  const cut = bytes.length > limit;
  const whole = fromUtf8(bytes.subarray(0, limit));
  return { text: cut ? whole.replace(/\ufffd$/u, "") : whole, cut }; // the cut can divide a character
}
