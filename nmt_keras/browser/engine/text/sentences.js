/** Splits a text into sentences, and joins their translations. */

import { cutBytes } from "./rules.js";

const BORDER = "\x03";

/**
 * Translates each sentence of a text. White space between sentences is kept. A space separates two translations whose
 * sentences no space separates, except after a mark such as 。. Returns a TextAnswer; see serve/web/service.js.
 */
export function translateSentences(rules, text, translate) {
  const { bytes, sentences: most } = rules.limits;
  const whole = cutBytes(text, bytes);
  const parts = rules.apply("sentences", whole.text).split(BORDER); // a sentence, the gap after it, a sentence, ...
  const sentences = parts.filter((part, n) => n % 2 === 0 && part !== "").length;
  if (sentences < 2) {
    const at = Math.max(0, parts.findIndex((part, n) => part !== "" && (n % 2 === 0 || sentences === 0)));
    const [before, after] = [parts.slice(0, at), parts.slice(at + 1)].map((gaps) => gaps.join(""));
    return { sentences, before, sentence: parts[at], after };
  }
  let [written, last, translated, truncated] = ["", "", 0, whole.cut || sentences > most];
  for (const [n, part] of parts.entries()) {
    if (translated === most && sentences > most) break;
    if (n % 2) last = part || (rules.wide.includes(last.at(-1) ?? " ") ? "" : " ");
    else if (part === "") last = "";
    else {
      const found = translate(part);
      last = found.text;
      truncated ||= found.truncated;
      translated += 1;
    }
    written += last;
  }
  return { text: written, truncated, sentences: Math.min(sentences, most) };
}
