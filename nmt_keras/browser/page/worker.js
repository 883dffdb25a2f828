/** The worker of the page: answers { id, method, args } with { id, result } or { id, error }. */

import { Translator } from "../engine/translator.js";

const assets = {}; // by name, a writer of its compressed bytes, and its content
let translator;

/** Builds the translator when all pieces of the assets have arrived. */
async function load() {
  const [facts, weights] = await Promise.all([assets.facts, assets.weights].map(({ writer, content }) => {
    writer.close().catch(() => {}); // the content fails
    return content;
  }));
  translator = new Translator(JSON.parse(new TextDecoder().decode(facts)), weights);
}

/** Takes a piece of an asset. */
function receive(name, piece) {
  if (!(name in assets)) {
    const { readable, writable } = new DecompressionStream("gzip");
    assets[name] = { writer: writable.getWriter(), content: new Response(readable).arrayBuffer() };
  }
  assets[name].writer.write(fromBase64(piece)).catch(() => {}); // the content fails
}

onmessage = async ({ data: { id, method, args, asset, piece } }) => {
  if (asset !== undefined) {
    receive(asset, piece);
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
