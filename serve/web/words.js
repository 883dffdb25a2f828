/**
 * Words instead of pieces: an alignment of tokens as an alignment of words, and words found again in their text.
 *
 * A model reads and writes words, or SentencePiece pieces such as "▁hos" "pi" "tal", where "▁" stands for the space in
 * front of a word. A sentence ends in the token "", END.
 */

const SPACE = "▁";

/**
 * The alignment of a sentence's words: summed over the pieces of a source word, averaged over those of a target word.
 *
 * So row t still says how target word t spreads its attention, and sums to 1. The word "" is the sentence's end.
 *
 * @param {string[]} sourceTokens S tokens, without padding
 * @param {string[]} targetTokens T tokens, without padding
 * @param {number[][]} weights [T][S]; row t says where target token t looked
 * @returns {{source: string[], target: string[], weights: number[][]}} words, and weights [target words][source words]
 */
export function alignWords(sourceTokens, targetTokens, weights) {
  const source = group(sourceTokens);
  const target = group(targetTokens);
  const looked = (rows, columns) => sum(rows.map((t) => sum(columns.map((s) => weights[t][s])))) / rows.length;
  return {
    source: source.map((word) => word.text),
    target: target.map((word) => word.text),
    weights: target.map(({ positions: rows }) => source.map(({ positions: columns }) => looked(rows, columns))),
  };
}

/**
 * A text cut into its words and what stands between them, in order; joined, the segments give the text.
 *
 * @param {string} text
 * @param {string[]} words as `alignWords` answers them; "" is passed over
 * @returns {{text: string, word: number | null}[]} word: which of `words` it is, null between words and after them.
 *     A word that the text does not have, in this order, makes the segments the words themselves with spaces between.
 */
export function segments(text, words) {
  const found = [];
  let position = 0;
  for (const [index, word] of words.entries()) {
    if (word === "") continue;
    const start = text.indexOf(word, position);
    if (start < 0) return spaced(words);
    if (start > position) found.push({ text: text.slice(position, start), word: null });
    found.push({ text: word, word: index });
    position = start + word.length;
  }
  if (position < text.length) found.push({ text: text.slice(position), word: null });
  return found;
}

/** Tokens by word. A piece that is but a space belongs to what follows it, be it the sentence's end. */
function group(tokens) {
  const arePieces = tokens.some((token) => token.startsWith(SPACE));
  const words = [];
  tokens.forEach((token, position) => {
    const isEnd = token === "" && position === tokens.length - 1;
    const begins = !arePieces || isEnd || token.startsWith(SPACE);
    const word = words.at(-1);
    if (word === undefined || (begins && !isBlank(word.text))) {
      words.push({ text: token, positions: [position] });
    } else {
      word.text += token;
      word.positions.push(position);
    }
  });
  const written = (text) => (arePieces ? text.replaceAll(SPACE, " ").trim() : text);
  return words.map(({ text, positions }) => ({ text: written(text), positions }));
}

function isBlank(text) {
  return text !== "" && text.replaceAll(SPACE, "") === "";
}

function spaced(words) {
  const written = [...words.entries()].filter(([, word]) => word !== "");
  return written.flatMap(([index, text], n) => [...(n ? [{ text: " ", word: null }] : []), { text, word: index }]);
}

function sum(numbers) {
  return numbers.reduce((total, number) => total + number, 0);
}
