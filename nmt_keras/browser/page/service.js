/** The translator of this file, behind the interface of the server's service. A worker computes. */

import { config } from "./config.js";
import { ServiceError } from "../../../serve/web/problems.js";

const calls = new Map();
let [worker, count] = [null, 0];

/** Calls a method of the translator. Calls are answered in order. */
export async function ask(method, ...args) {
  if (method !== "load") await loaded;
  return new Promise((resolve, reject) => {
    const id = count++;
    calls.set(id, { resolve, reject });
    worker.postMessage({ id, method, args });
  });
}

/** Starts the worker, and passes it the assets in pieces, because no task of the page may be long. */
async function load() {
  if (document.readyState === "loading") await new Promise((done) => addEventListener("DOMContentLoaded", done));
  const script = new Blob([take(document.querySelector("script.worker"))], { type: "text/javascript" });
  worker = new Worker(URL.createObjectURL(script));
  worker.onmessage = ({ data: { id, result, error } }) => {
    const { resolve, reject } = calls.get(id);
    calls.delete(id);
    if (error === undefined) resolve(result);
    else reject(new ServiceError("stopped", error));
  };
  const failed = new Promise((_, reject) => (worker.onerror = ({ message }) => reject(new Error(message))));
  const done = ask("load", config.sizes);
  for (const asset of Object.keys(config.sizes)) {
    for (const element of document.querySelectorAll(`script.${asset}`)) {
      worker.postMessage({ asset, piece: take(element) });
      await new Promise((next) => setTimeout(next));
    }
  }
  await Promise.race([done, failed]);
}

/** Returns the text of an element, and removes the element to free its memory. */
function take(element) {
  element.remove();
  return element.textContent;
}

/** The translator's start. */
export const loaded = load().catch(({ message }) => {
  throw new ServiceError("stopped", message);
});

export class Service {
  #last = loaded;
  model = null;

  /** Waits until the translator can be used. */
  async find() {
    await loaded;
    this.model = { version: config.version, hasBeam: true, hasText: true };
  }

  /** Translates a text. Returns null if it is one sentence. */
  async translateText(text, signal) {
    const found = await this.#next("translateText", [text], signal);
    return found?.sentences > 1 ? found : null;
  }

  /** Translates one sentence. */
  translate(signature, text, signal) {
    return this.#next("translate", [signature, text], signal);
  }

  /** Calls a method after the call before it, unless `signal` is aborted meanwhile. */
  async #next(method, args, signal) {
    if (this.model === null) await this.find();
    this.#last = this.#last
      .catch(() => {})
      .then(() => {
        signal?.throwIfAborted();
        return ask(method, ...args);
      });
    return this.#last;
  }
}
