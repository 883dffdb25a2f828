/**
 * A translation model behind TensorFlow Serving's REST API, on the host of the page. Requests contain the version that
 * the page shows, so that no other version answers. When this version is unloaded, the newest version replaces it.
 *
 * An Answer to a sentence is { sourceTokens [S], truncated, hypotheses }. A Hypothesis, best first, is { text, score,
 * logProb, tokens [T], weights [T][S] }: `score` ranks it, `logProb` is in nats. A TextAnswer to at least two sentences
 * is { text, truncated, sentences }; `truncated` is true if a sentence or the text exceeded a limit. The TextAnswer to
 * one sentence is { before, sentence, after }: `before` and `after` are the gaps around it, such as a dash or an emoji.
 * The page puts them around the hypotheses of the Answer to the sentence, which has them, too.
 */

import { ServiceError } from "./problems.js";

const FIELDS = ["truncated", "source_tokens", "source_lengths", "alignment"];
/** Outputs of the signatures. */
const OUTPUTS = {
  align: [...FIELDS, "translation", "score", "log_prob", "target_tokens", "target_lengths"],
  beam: [...FIELDS, "translations", "scores", "log_probs", "tokens", "lengths"],
  sentences: ["translation", "truncated", "sentences", "target_begins", "target_ends"],
  text: ["translation", "truncated", "sentences"], // of exports before format 3
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
    const splitting = mayBeSplit(text) && ["sentences", "text"].find((each) => signatures.includes(each));
    const whole = splitting
      ? await this.#predict(splitting, text, signal, ({ outputs }) => textIn(text, outputs))
      : { before: "", sentence: text, after: "" };
    if (whole.sentences > 1) return whole;
    const one = signatures.includes(search) ? search : "align";
    return { ...whole, ...(await this.#predict(one, whole.sentence, signal, answerIn)) };
  }

  /** Returns what `reader` finds in the answer of a signature. */
  async #predict(signature, text, signal, reader) {
    const body = JSON.stringify({ signature_name: signature, inputs: { text: [text] } });
    const path = `${this.#path}/versions/${this.model.version}:predict`;
    return read(reader, await this.#ask(path, { method: "POST", body, signal }));
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

/**
 * Returns false for a text that is a sentence without gaps: it has no picture (see nmt_keras/io/sentences.py), no line
 * break, no mark that ends sentences before its last character, and no mark of a line at its beginning.
 */
function mayBeSplit(text) {
  const marks = /^\d*[^\s\p{L}\p{N}¿¡"'«“„‘(]|[\n.!?…؟۔।॥։።။។。！？｡]./su;
  const pictures = /[•‣⁃\u2190-\u21ff\u2300-\u23ff\u25a0-\u27bf\u2b00-\u2bff\u{1f000}-\u{1faff}]/u;
  return marks.test(text) || pictures.test(text);
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

/** Returns the TextAnswer in the outputs of `sentences` or `text`. The gaps lack invisible characters. */
function textIn(text, { translation, truncated, sentences, target_begins: begins, target_ends: ends }) {
  if (sentences[0] > 1) return { text: translation[0], truncated: truncated[0], sentences: sentences[0] };
  const signs = [...translation[0]];
  const [before, after] = [signs.slice(0, begins?.[0][0] ?? 0), signs.slice(ends?.[0][0] ?? signs.length)];
  const begin = before.reduce((at, sign) => text.indexOf(sign, at) + sign.length, 0);
  const end = after.reduceRight((at, sign) => text.lastIndexOf(sign, at - sign.length), text.length);
  return { sentences: sentences[0], before: before.join(""), sentence: text.slice(begin, end), after: after.join("") };
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
