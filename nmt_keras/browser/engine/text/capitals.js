/** Sentences in capitals are read in lower case, and their translations are written in capitals. */

/** Returns true if the letters of a sentence are all capitals, and at least two. */
export function inCapitals(rules, text) {
  return rules.is("capitals", text) && toUpper(rules, toLower(rules, text), text) === text;
}

/** Returns a text in lower case. With İ it is Turkish or Azerbaijani, where the small letter of I is ı. */
export function toLower(rules, text) {
  const turkish = text.includes("İ") ? text.replaceAll("I", "ı").replaceAll("İ", "i") : text;
  return changed(rules, turkish, (part) => part.toLowerCase());
}

/** Returns a text in capitals. The capital of i is İ if `like` contains İ, and that of ß is ẞ if it contains ẞ. */
export function toUpper(rules, text, like = "") {
  for (const [small, capital] of ["iİ", "ßẞ"]) if (like.includes(capital)) text = text.replaceAll(small, capital);
  return changed(rules, text, (part) => part.toUpperCase());
}

/** Changes the case of a text, but not of letters that have none in the graph, whose Unicode can be older. */
function changed({ caseless }, text, change) {
  return text
    .split(caseless)
    .map((part, n) => (n % 2 ? part : change(part)))
    .join("");
}
