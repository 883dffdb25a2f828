/**
 * A translation model behind TensorFlow Serving's REST API, on the host of the page. Requests contain the version that
 * the page shows, so that no other version answers. When this version is unloaded, the newest version replaces it.
 *
 * An Answer to a sentence is { sourceTokens [S], truncated, hypotheses }. A Hypothesis, best first, is { text, score,
 * logProb, tokens [T], weights [T][S] }: `score` ranks it, `logProb` is in nats. A TextAnswer to at least two sentences
 * is { text, truncated, sentences }. `truncated` is true if a sentence or a text exceeded a limit.
 */

import { ServiceError } from "./problems.js";

const FIELDS = ["truncated", "source_tokens", "source_lengths", "alignment"];
/** Outputs of the signatures. */
const OUTPUTS = {
  align: [...FIELDS, "translation", "score", "log_prob", "target_tokens", "target_lengths"],
  beam: [...FIELDS, "translations", "scores", "log_probs", "tokens", "lengths"],
  text: ["translation", "truncated", "sentences"],
};
const KIND_OF_STATUS = {
  ...{ 400: "refused", 404: "missing", 408: "timeout", 413: "refused", 429: "busy" },
  ...{ 502: "unreachable", 503: "busy", 504: "timeout" },
};

export class Service {
  #path;
  #timeout;
  model = null; // { version, signatures }: the newest version, and those of its signatures above

  /** Takes the name of a model, and the time limit of each answer in seconds. */
  constructor(name, seconds) {
    this.#path = `v1/models/${encodeURIComponent(name)}`;
    this.#timeout = Math.min(1000 * seconds, 2 ** 31 - 1); // the longest of setTimeout
  }

  /** Finds the model's newest version and its signatures, unless they are known. */
  async find() {
    if (this.model !== null) return;
    const version = read(newestVersion, await this.#ask(this.#path));
    const signatures = read(signaturesIn, await this.#ask(`${this.#path}/versions/${version}/metadata`));
    if (!signatures.includes("align")) throw new ServiceError("unfit");
    this.model = { version, signatures };
  }

  /** Translates a text: one sentence greedily ("align") or by beam search ("beam"), several by the default search. */
  async translate(text, search, signal) {
    await this.find();
    try {
      return await this.#translate(text, search, signal);
    } catch (error) {
      if (error.kind !== "missing") throw error;
      this.model = null;
      await this.find();
      return this.#translate(text, search, signal);
    }
  }

  async #translate(text, search, signal) {
    const { signatures } = this.model;
    if (signatures.includes("text") && mayHaveSentences(text)) {
      const found = await this.#predict("text", text, signal);
      if (found.sentences > 1) return found;
    }
    return this.#predict(signatures.includes(search) ? search : "align", text.replace(/\s+/gu, " "), signal);
  }

  async #predict(signature, text, signal) {
    const body = JSON.stringify({ signature_name: signature, inputs: { text: [text] } });
    const path = `${this.#path}/versions/${this.model.version}:predict`;
    return read(signature === "text" ? textIn : answerIn, await this.#ask(path, { method: "POST", body, signal }));
  }

  /** Returns the JSON at a path. Throws after the time limit, or when the signal of the request aborts. */
  async #ask(path, request) {
    const late = new Promise((_, reject) => setTimeout(reject, this.#timeout, new ServiceError("timeout")));
    try {
      return await Promise.race([fetchJson(path, request), late]);
    } catch (error) {
      if (error instanceof TypeError) throw new ServiceError(navigator.onLine ? "unreachable" : "offline");
      throw error;
    }
  }
}

/** Returns the JSON at a path. Throws the error of a status that is not OK. */
async function fetchJson(path, request) {
  const response = await fetch(path, request);
  const content = readJson(await response.text());
  if (response.ok) return content;
  throw new ServiceError(KIND_OF_STATUS[response.status] ?? "failed", content?.error ?? "");
}

/** Returns false if a text has no letter or digit after a line break or a mark that ends sentences: it is one. */
function mayHaveSentences(text) {
  const mark = text.search(/[\n.!?…؟۔।॥։።။។。！？｡]/u);
  return mark >= 0 && /[\p{L}\p{N}]/u.test(text.slice(mark));
}

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
  if (available.length) return available.reduce((newest, other) => (other > newest ? other : newest)).toString();
  const failed = statuses.find(({ state, status }) => state === "END" && status.error_code !== "OK");
  const isLoading = statuses.some(({ state }) => state === "START" || state === "LOADING");
  throw failed && !isLoading ? new ServiceError("failed", failed.status.error_message) : new ServiceError("loading");
}

/** Returns the signatures in a model's metadata that have all required outputs. */
function signaturesIn({ metadata }) {
  const definitions = metadata.signature_def.signature_def;
  const hasAll = (signature) => OUTPUTS[signature].every((name) => name in (definitions[signature]?.outputs ?? {}));
  return Object.keys(OUTPUTS).filter(hasAll);
}

/** Parses TensorFlow Serving's JSON. NaN and Infinity become null. Returns null for other text. */
function readJson(text) {
  const tokens = /"(?:[^"\\]|\\.)*"|-?\b(?:Infinity|NaN)\b/gsu;
  try {
    return JSON.parse(text.replace(tokens, (found) => (found.startsWith('"') ? found : "null")));
  } catch {
    return null;
  }
}

/** Returns the answer in the outputs of `text` for one text. */
function textIn({ outputs }) {
  return { text: outputs.translation[0], truncated: outputs.truncated[0], sentences: outputs.sentences[0] };
}

/** Returns the answer in the outputs of `align` or `beam` for one sentence. Drops padding and repeated texts. */
function answerIn({ outputs }) {
  const of = (beam, align) => (beam in outputs ? outputs[beam][0] : [outputs[align][0]]);
  const sourceTokens = outputs.source_tokens[0].slice(0, outputs.source_lengths[0]);
  const texts = of("translations", "translation");
  const [scores, logProbs] = [of("scores", "score"), of("log_probs", "log_prob")];
  const [tokens, lengths] = [of("tokens", "target_tokens"), of("lengths", "target_lengths")];
  const alignments = "translations" in outputs ? outputs.alignment[0] : outputs.alignment;
  const hypotheses = texts.map((text, k) => ({
    ...{ text, score: scores[k], logProb: logProbs[k], tokens: tokens[k].slice(0, lengths[k]) },
    weights: alignments[k].slice(0, lengths[k]).map((row) => row.slice(0, sourceTokens.length)),
  }));
  const found = hypotheses.filter(({ text, tokens }, k) => tokens.length > 0 && texts.indexOf(text) === k);
  if (found.length === 0) throw new ServiceError("unreadable");
  return { sourceTokens, truncated: outputs.truncated[0], hypotheses: found };
}
