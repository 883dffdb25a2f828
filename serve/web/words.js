/**
 * Converts alignments of tokens to alignments of words, finds the words in their text, and their direction.
 *
 * Tokens are words, or SentencePiece pieces such as "▁hos" "pi" "tal", where "▁" is the space before a word. The last
 * token of a sentence is "", which stands for END.
 */

const SPACE = "▁";
/** A letter of a script without spaces between words, as in nmt_keras/languages.py. */
const SPACELESS =
  /[\p{sc=Hani}\p{sc=Hira}\p{sc=Kana}ー\p{sc=Bopo}\p{sc=Thai}\p{sc=Laoo}\p{sc=Khmr}\p{sc=Mymr}\p{sc=Tibt}\p{sc=Java}\p{sc=Bali}\p{sc=Lana}\p{sc=Talu}\p{sc=Yiii}\p{sc=Tang}]/u;
const RIGHT_TO_LEFT = new Set(["Adlm", "Arab", "Aran", "Hebr", "Mand", "Nkoo", "Rohg", "Samr", "Syrc", "Thaa"]);

/**
 * Returns the alignment of words: weights are summed over the pieces of a source word and averaged over the pieces of a
 * target word, so that each row sums to 1. The word "" is the end of the sentence. In scripts without spaces, such as
 * Chinese, each piece is a word.
 *
 * @param {string[]} sourceTokens S tokens, without padding
 * @param {string[]} targetTokens T tokens, without padding
 * @param {number[][]} weights [T][S]; row t holds the attention weights of target token t
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
 * Splits a text into its words and the text between them.
 *
 * @param {string} text
 * @param {string[]} words words of `alignWords`; "" is skipped
 * @returns {{text: string, word: number | null}[]} segments whose texts joined give the text; `word` is an index of
 *     `words`, or null between words. If the text does not have all words in this order, the segments are the words,
 *     separated by spaces.
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

/**
 * Returns the direction of a language's script: "ltr" or "rtl". If the language is unknown, returns "auto", the
 * direction of the first letter.
 *
 * @param {string} code such as "ar" or "pa-PK"
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

/** Groups tokens by word. A piece that is only a space belongs to the next word, or to the sentence's end. */
export function group(tokens) {
  const arePieces = tokens.some((token) => token.startsWith(SPACE));
  const words = [];
  tokens.forEach((token, position) => {
    const isEnd = token === "" && position === tokens.length - 1;
    const word = words.at(-1);
    const begins = !arePieces || isEnd || token.startsWith(SPACE) || isApart(word, token);
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

/** Returns true if a token begins a word without a space: at a letter of a script without spaces. */
function isApart(word, token) {
  const [last, first] = [[...(word?.text ?? "")].at(-1), [...token][0]];
  return last !== undefined && first !== undefined && SPACELESS.test(last + first) && !/^\p{M}/u.test(first);
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
