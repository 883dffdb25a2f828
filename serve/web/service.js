/**
 * A translation model behind TensorFlow Serving's REST API.
 *
 * Paths are relative to the page, because one host serves the page and the model. A request contains the version that
 * the page shows, so that no other version answers. When this version is unloaded, the newest version replaces it.
 */

import { ServiceError } from "./problems.js";

/**
 * @typedef {object} Model
 * @property {string} version the newest available version
 * @property {boolean} hasBeam `true` if it has beam search
 * @property {boolean} hasText `true` if it translates texts of several sentences
 *
 * @typedef {object} Hypothesis
 * @property {string} text
 * @property {number} score score that ranks hypotheses, higher is better
 * @property {number} logProb log-probability in nats
 * @property {string[]} tokens
 * @property {number[][]} weights [tokens][source tokens]
 *
 * @typedef {object} Answer
 * @property {string[]} sourceTokens
 * @property {boolean} truncated `true` if the sentence exceeded the model's length limit
 * @property {Hypothesis[]} hypotheses at least one, best first
 *
 * @typedef {object} TextAnswer
 * @property {string} text translation, with the line breaks of the source
 * @property {boolean} truncated `true` if a sentence or the text exceeded a limit
 * @property {number} sentences number of translated sentences
 */

const OUTPUTS = {
  align: [
    ...["translation", "score", "log_prob", "truncated", "source_tokens", "source_lengths"],
    ...["target_tokens", "target_lengths", "alignment"],
  ],
  beam: [
    ...["translations", "scores", "log_probs", "truncated", "source_tokens", "source_lengths"],
    ...["tokens", "lengths", "alignment"],
  ],
  text: ["translation", "truncated", "sentences"],
};

/** Returns false if a text has no letter or digit after a line break or punctuation mark: it is one sentence. */
function mayHaveSentences(text) {
  const mark = text.search(/[\n\p{Po}]/u);
  return mark >= 0 && /[\p{L}\p{N}]/u.test(text.slice(mark));
}

export class Service {
  #path;
  #timeout;

  /**
   * @param {string} name name of the model
   * @param {number} seconds time limit of each answer
   */
  constructor(name, seconds) {
    this.#path = `v1/models/${encodeURIComponent(name)}`;
    this.#timeout = seconds * 1000;
    /** @type {Model | null} */
    this.model = null;
  }

  /** Finds the model's newest version and its signatures. */
  async find() {
    this.model = null;
    const version = read(newestVersion, await this.#ask(this.#path));
    const signatures = read(signaturesIn, await this.#ask(`${this.#path}/versions/${version}/metadata`));
    if (!signatures.includes("align")) throw new ServiceError("unfit");
    this.model = { version, hasBeam: signatures.includes("beam"), hasText: signatures.includes("text") };
  }

  /**
   * Translates a text of several sentences with the default search of the model.
   *
   * @param {string} text
   * @param {AbortSignal} signal
   * @returns {Promise<TextAnswer | null>} null for one sentence, or if the model reads every text as one sentence
   */
  async translateText(text, signal) {
    if (this.model === null) await this.find();
    if (!this.model.hasText || !mayHaveSentences(text)) return null;
    const found = await this.translate("text", text, signal);
    return found.sentences > 1 ? found : null;
  }

  /**
   * Translates one sentence, greedily ("align") or by beam search ("beam").
   *
   * @param {"align" | "beam" | "text"} signature
   * @param {string} text
   * @param {AbortSignal} signal
   * @returns {Promise<Answer>}
   */
  async translate(signature, text, signal) {
    if (this.model === null) await this.find();
    try {
      return await this.#predict(signature, text, signal);
    } catch (error) {
      if (error.kind !== "missing") throw error;
      await this.find();
      return this.#predict(signature, text, signal);
    }
  }

  async #predict(signature, text, signal) {
    const body = JSON.stringify({ signature_name: signature, inputs: { text: [text] } });
    const path = `${this.#path}/versions/${this.model.version}:predict`;
    return read(READERS[signature], await this.#ask(path, { method: "POST", body, signal }));
  }

  /** Returns the JSON at a path. Throws after the time limit, or when `signal` aborts. */
  async #ask(path, { signal, ...request } = {}) {
    const controller = new AbortController(); // browsers that run the rest of the page may lack AbortSignal.any
    const abort = () => controller.abort();
    const timer = setTimeout(abort, this.#timeout);
    signal?.addEventListener("abort", abort);
    if (signal?.aborted) abort();
    let response, content;
    try {
      response = await fetch(path, { ...request, signal: controller.signal });
      content = readJson(await response.text());
    } catch (error) {
      if (signal?.aborted) throw error;
      if (controller.signal.aborted) throw new ServiceError("timeout");
      if (error instanceof TypeError) throw new ServiceError(navigator.onLine ? "unreachable" : "offline");
      throw error;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    }
    if (!response.ok) throw new ServiceError(KIND_OF_STATUS[response.status] ?? "failed", content?.error ?? "");
    if (content === null) throw new ServiceError("unreadable");
    return content;
  }
}

const KIND_OF_STATUS = {
  400: "refused",
  404: "missing",
  408: "timeout",
  413: "refused",
  429: "busy",
  502: "unreachable",
  503: "busy",
  504: "timeout",
};

/** Applies `reader` to an answer. Throws "unreadable" if it is not an answer of TensorFlow Serving. */
function read(reader, content) {
  try {
    return reader(content);
  } catch (error) {
    throw error instanceof ServiceError ? error : new ServiceError("unreadable");
  }
}

/** Returns the newest available version in a model's status. */
function newestVersion({ model_version_status: statuses }) {
  const available = statuses.filter(({ state }) => state === "AVAILABLE").map(({ version }) => BigInt(version));
  if (available.length === 0) throw unavailable(statuses);
  return available.reduce((newest, other) => (other > newest ? other : newest)).toString();
}

/** Returns the error that explains why no version of a model is available. */
function unavailable(statuses) {
  const failed = statuses.find(({ state, status }) => state === "END" && status.error_code !== "OK");
  return failed ? new ServiceError("failed", failed.status.error_message) : new ServiceError("loading");
}

/** Returns the signatures in a model's metadata that have all required outputs. */
function signaturesIn({ metadata }) {
  const definitions = metadata.signature_def.signature_def;
  return Object.keys(OUTPUTS).filter((signature) =>
    OUTPUTS[signature].every((name) => name in (definitions[signature]?.outputs ?? {})),
  );
}

/** Parses TensorFlow Serving's JSON. NaN and Infinity become null. Returns null for other text. */
function readJson(text) {
  const strict = text.replace(/"(?:[^"\\]|\\.)*"|-?\b(?:Infinity|NaN)\b/gsu, (found) =>
    found.startsWith('"') ? found : "null",
  );
  try {
    return JSON.parse(strict);
  } catch {
    return null;
  }
}

/** Returns the answer in the outputs of `text` for one text. */
function textIn({ outputs }) {
  return { text: outputs.translation[0], truncated: outputs.truncated[0], sentences: outputs.sentences[0] };
}

/** Returns the answer in the outputs of `align` for one sentence. */
function translationIn({ outputs }) {
  const sourceTokens = outputs.source_tokens[0].slice(0, outputs.source_lengths[0]);
  const hypothesis = {
    text: outputs.translation[0],
    score: outputs.score[0],
    logProb: outputs.log_prob[0],
    ...withoutPadding(outputs.target_tokens[0], outputs.alignment[0], outputs.target_lengths[0], sourceTokens.length),
  };
  return { sourceTokens, truncated: outputs.truncated[0], hypotheses: [hypothesis] };
}

/** Returns the answer in the outputs of `beam` for one sentence. Drops padding of length 0 and repeated texts. */
function nBestIn({ outputs }) {
  const sourceTokens = outputs.source_tokens[0].slice(0, outputs.source_lengths[0]);
  const hypotheses = outputs.translations[0].map((text, k) => ({
    text,
    score: outputs.scores[0][k],
    logProb: outputs.log_probs[0][k],
    ...withoutPadding(outputs.tokens[0][k], outputs.alignment[0][k], outputs.lengths[0][k], sourceTokens.length),
  }));
  const texts = hypotheses.map(({ text }) => text);
  const found = hypotheses.filter(({ text, tokens }, k) => tokens.length > 0 && texts.indexOf(text) === k);
  if (found.length === 0) throw new ServiceError("unreadable");
  return { sourceTokens, truncated: outputs.truncated[0], hypotheses: found };
}

const READERS = { align: translationIn, beam: nBestIn, text: textIn };

function withoutPadding(tokens, weights, targetLength, sourceLength) {
  return {
    tokens: tokens.slice(0, targetLength),
    weights: weights.slice(0, targetLength).map((row) => row.slice(0, sourceLength)),
  };
}
