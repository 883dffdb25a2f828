/** The worker of the page: answers { id, method, args } with { id, result } or { id, error }. */

import { Translator } from "../engine/translator.js";

const MOST = 1e-3; // difference of scores
const writers = {};
let translator;
let examples;

const METHODS = {
  /** Builds the translator when all assets have arrived, whose sizes are given in bytes. */
  async load(sizes) {
    const assets = {};
    const arriving = Object.entries(sizes).map(async ([name, size]) => {
      const stream = new DecompressionStream("gzip");
      writers[name] = stream.writable.getWriter();
      assets[name] = await read(stream.readable.getReader(), size);
    });
    await Promise.all(arriving);
    const { check, ...facts } = JSON.parse(new TextDecoder().decode(assets.facts));
    translator = new Translator(facts, { ...assets, weights: assets.weights.buffer });
    examples = check;
  },

  /** Compares the answer to an example with the one in the file. Returns null after the last example. */
  check(number) {
    const expected = examples[number];
    if (expected === undefined) return null;
    const { sourceTokens, hypotheses } = translator.translate(expected.signature, expected.sentence);
    const [{ text, tokens, score }] = hypotheses;
    const equal = JSON.stringify([sourceTokens, tokens, text]) === JSON.stringify([expected.sourceTokens, expected.tokens, expected.text]);
    return { isEqual: equal && Math.abs(score - expected.score) < MOST, expected, received: { sourceTokens, tokens, text, score } };
  },
};

onmessage = async ({ data: { id, method, args, asset, piece } }) => {
  if (asset !== undefined) {
    writers[asset].write(fromBase64(piece)).catch(() => {}); // `load` fails
    return;
  }
  try {
    const call = METHODS[method] ?? translator[method].bind(translator);
    postMessage({ id, result: await call(...args) });
  } catch (error) {
    postMessage({ id, error: error.message });
  }
};

/** Returns the bytes of a base64 text. A loop, because `Uint8Array.from` is slow, and `fromBase64` too new. */
function fromBase64(text) {
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = letters.charCodeAt(i);
  return bytes;
}

/** Returns the first `size` bytes of a stream. */
async function read(reader, size) {
  const bytes = new Uint8Array(size);
  for (let filled = 0; filled < size; ) {
    const { value } = await reader.read();
    bytes.set(value, filled);
    filled += value.length;
  }
  return bytes;
}
