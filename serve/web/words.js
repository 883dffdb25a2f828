/**
 * Converts alignments of tokens to alignments of words, finds the words in their text, and their direction.
 *
 * Tokens are words, or SentencePiece pieces such as "▁hos" "pi" "tal", where "▁" is the space before a word. The last
 * token of a sentence is "", which stands for END. The module imports nothing. Its types are in its comments.
 *
 * @module words
 *
 * @typedef {object} Aligned an alignment of words; the word "" is the end of the sentence
 * @property {string[]} source
 * @property {string[]} target
 * @property {number[][]} weights [target words][source words]; each row sums to 1
 *
 * @typedef {{text: string, word: number | null}} Segment part of a text: a word, by its index, or null between words
 *
 * @typedef {{text: string, positions: number[]}} Word a word, and the positions of its tokens
 */

const SPACE = "▁";
/** A letter, digit or mark of a script without spaces between words, as in nmt_keras/languages.py. */
const SPACELESS =
  /(?=[\p{L}\p{M}\p{N}])[\p{sc=Hani}〆\p{sc=Hira}\p{sc=Kana}ーﾞﾟ\p{sc=Bopo}\p{sc=Thai}\p{sc=Laoo}\p{sc=Khmr}\p{sc=Mymr}\p{sc=Tibt}\p{sc=Java}ꧏ\p{sc=Bali}\p{sc=Lana}\p{sc=Talu}\p{sc=Yiii}\p{sc=Tang}]/u;
const RIGHT_TO_LEFT = new Set(["Adlm", "Arab", "Aran", "Hebr", "Mand", "Nkoo", "Rohg", "Samr", "Syrc", "Thaa"]);

/**
 * Returns the alignment of words: weights are summed over the pieces of a source word and averaged over the pieces of a
 * target word. In scripts without spaces, such as Chinese, each piece is a word.
 *
 * @param {string[]} sourceTokens S tokens, without padding
 * @param {string[]} targetTokens T tokens, without padding
 * @param {number[][]} weights [T][S]; row t holds the attention weights of target token t
 * @returns {Aligned}
 */
export function alignWords(sourceTokens, targetTokens, weights) {
  const [source, target] = [group(sourceTokens), group(targetTokens)];
  /** @type {(rows: number[], columns: number[]) => number} */
  const sum = (rows, columns) => rows.flatMap((t) => columns.map((s) => weights[t][s])).reduce((a, b) => a + b, 0);
  return {
    source: source.map(({ text }) => text),
    target: target.map(({ text }) => text),
    weights: target.map(({ positions: rows }) => source.map(({ positions }) => sum(rows, positions) / rows.length)),
  };
}

/**
 * Splits a text into its words and the text between them.
 *
 * @param {string} text
 * @param {string[]} words words of `alignWords`; "" is skipped
 * @returns {Segment[]} segments whose texts joined give the text. If the text does not have all words in this order,
 *     the segments are the words, separated by spaces.
 */
export function segments(text, words) {
  /** @type {Segment[]} */
  const found = [];
  let position = 0;
  for (const [index, word] of words.entries()) {
    if (word === "") continue;
    const start = text.indexOf(word, position);
    if (start < 0) return segments(words.filter(Boolean).join(" "), words);
    if (start > position) found.push({ text: text.slice(position, start), word: null });
    found.push({ text: word, word: index });
    position = start + word.length;
  }
  if (position < text.length) found.push({ text: text.slice(position), word: null });
  return found;
}

/**
 * Returns the direction of a language's script. If the language is unknown, returns "auto", the direction of the first
 * letter.
 *
 * @param {string} code such as "ar" or "pa-PK"
 * @returns {"ltr" | "rtl" | "auto"}
 */
export function direction(code) {
  try {
    const { script } = new Intl.Locale(code).maximize();
    if (script) return RIGHT_TO_LEFT.has(script) ? "rtl" : "ltr";
  } catch {
    // not a language code
  }
  return "auto";
}

/**
 * Groups tokens by word. A piece that is only a space belongs to the next word, or to the sentence's end.
 *
 * @param {string[]} tokens
 * @returns {Word[]}
 */
export function group(tokens) {
  const arePieces = tokens.some((token) => token.startsWith(SPACE));
  /** @type {Word[]} */
  const words = [];
  tokens.forEach((token, position) => {
    const isEnd = token === "" && position === tokens.length - 1;
    const word = words.at(-1);
    const begins = !arePieces || isEnd || token.startsWith(SPACE) || (word && isApart(word.text, token));
    if (word === undefined || (begins && !/^▁+$/u.test(word.text))) words.push({ text: token, positions: [position] });
    else {
      word.text += token;
      word.positions.push(position);
    }
  });
  const written = (/** @type {string} */ text) => (arePieces ? text.replaceAll(SPACE, " ").trim() : text);
  return words.map(({ text, positions }) => ({ text: written(text), positions }));
}

/**
 * Returns true if a token begins a word without a space: at a letter of a script without spaces.
 *
 * @param {string} before
 * @param {string} token
 */
function isApart(before, token) {
  const [last, first] = [[...before].at(-1), [...token][0]];
  return last !== undefined && first !== undefined && SPACELESS.test(last + first) && !/^\p{M}/u.test(first);
}
