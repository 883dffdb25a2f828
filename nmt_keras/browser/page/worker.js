/** The worker of the page: answers { id, method, args } with { id, result } or { id, error }. */

import { Translator } from "../engine/translator.js";

const assets = { facts: [], weights: [] }; // pieces of their compressed bytes
let translator;

/** Builds the translator when all pieces of the assets have arrived. */
async function load() {
  const [facts, weights] = await Promise.all([assets.facts, assets.weights].map(unpacked));
  translator = new Translator(JSON.parse(new TextDecoder().decode(facts)), weights);
}

/** Returns the content of an asset, and drops its pieces to free their memory. */
function unpacked(pieces) {
  const packed = new Blob(pieces.splice(0));
  return new Response(packed.stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

onmessage = async ({ data: { id, method, args, asset, piece } }) => {
  if (asset !== undefined) {
    assets[asset].push(fromBase64(piece));
    return;
  }
  try {
    postMessage({ id, result: await (method === "load" ? load() : translator[method](...args)) });
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
