/** The translator of this file, behind the interface of the server's service. A worker computes. */

import { ServiceError } from "../../../serve/web/problems.js";
import { config } from "./config.js";

const ASSETS = ["weights", "facts"];
const calls = [];
/** Returns the text of an element, and removes the element to free its memory. */
const take = (element) => (element.remove(), element.textContent);
let worker;

/** Calls a method of the translator. Calls are answered in order. */
export async function ask(method, ...args) {
  if (method !== "load") await loaded;
  return new Promise((resolve, reject) => {
    const id = calls.push({ resolve, reject }) - 1;
    worker.postMessage({ id, method, args });
  });
}

/** Starts the worker, and passes it the assets in pieces, because no task of the page may be long. */
async function load() {
  if (document.readyState === "loading") await new Promise((done) => addEventListener("DOMContentLoaded", done));
  const script = new Blob([take(document.querySelector("script.worker"))], { type: "text/javascript" });
  worker = new Worker(URL.createObjectURL(script));
  worker.onmessage = ({ data: { id, result, error } }) => {
    if (error === undefined) calls[id].resolve(result);
    else calls[id].reject(new ServiceError("broken", error));
    delete calls[id];
  };
  const failed = new Promise((_, reject) => (worker.onerror = ({ message }) => reject(new Error(message))));
  for (const asset of ASSETS) {
    for (const element of document.querySelectorAll(`script.${asset}`)) {
      worker.postMessage({ asset, piece: take(element) });
      await new Promise((next) => setTimeout(next));
    }
  }
  await Promise.race([ask("load"), failed]);
}

/** The translator's start. */
export const loaded = load().catch(({ message }) => {
  throw new ServiceError("stopped", message);
});

let last = loaded;

/** Computes an answer after the one before it, unless `signal` is aborted meanwhile. */
function queue(signal, compute) {
  const answer = () => (signal.throwIfAborted(), compute());
  return (last = last.then(answer, answer));
}

/** Returns a Trace; see inspect.js. */
export const inspect = (signal, ...args) => queue(signal, () => ask("inspect", ...args));

export class Service {
  model = { version: config.version, signatures: ["align", "beam", "text"] };
  find = () => loaded;

  /** Translates a text; see serve/web/service.js. */
  translate(text, search, signal) {
    return queue(signal, async () => {
      const whole = await ask("translateText", text);
      const found = whole.sentences > 1 ? whole : { ...whole, ...(await ask("translate", search, whole.sentence)) };
      return { ...found, isInTargetLanguage: await ask("isInTargetLanguage", text) };
    });
  }
}
