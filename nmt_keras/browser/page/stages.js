/** The stages of one step of the decoder: equations, sentences and pictures. */

import { group } from "../../../serve/web/words.js";
import { create, equation, stagesOf } from "./equations.js";
import { bar, decimal, share, strips, tint } from "./pictures.js";

const CONCEPTS = "https://nmt-keras.github.io/nmt_keras/concepts/";

/**
 * @typedef {object} Shown what the view shows
 * @property {import("../engine/inspect.js").Trace} trace
 * @property {number} step
 * @property {Float32Array | null} before alpha_ij before the learner's change, if the words before are the same
 * @property {{source: object, target: object}} languages attributes of texts
 * @property {(id: number) => void} choose takes another next word
 */

/** Returns the stages of a step as items of a list. */
export function drawStages(shown) {
  return stagesOf(shown.trace.decoder).map((stage) => {
    const { symbol, title, equations, kind } = stage;
    const { page, sentence, picture } = KINDS[kind];
    const link = create("a", { href: CONCEPTS + page, target: "_blank", rel: "noopener" }, "More");
    link.ariaLabel = `More about: ${title}`;
    const sign = create("span", { class: "sign", "aria-hidden": "true" }, create("span", {}, equation(symbol)));
    const written = equations.map((each) => create("p", { class: "equation" }, equation(each)));
    const text = [create("h2", {}, sign, title), ...written, create("p", {}, ...sentence(shown), " ", link)];
    return create("li", {}, create("div", {}, ...text), create("div", { class: "picture" }, picture(shown, stage)));
  });
}

const keeps = (trace) => trace.decoder.cell === "gru-reset-after"; // an update gate of 1 keeps the state

/** What each kind of stage shows: a page of the documentation, a sentence, and a picture. */
const KINDS = {
  word: {
    page: "decoding/",
    sentence: ({ trace, step }) =>
      step === 0
        ? ["No word has been written yet: the decoder reads the vector of a start symbol."]
        : ["The decoder reads the vector of ", quoted(trace.steps[step - 1].surface), ", as training has found it."],
    picture: ({ trace, step }) =>
      vector("e(y_{i-1})", trace.steps[step].values.embedded, "Orange ones are positive, blue ones negative."),
  },
  cell: {
    page: "decoding/",
    sentence({ trace }) {
      const [open, closed] = keeps(trace) ? ["keeps its old", "takes a new"] : ["takes a new", "keeps its old"];
      return ["Where the update gate ", equation("z"), ` is near 1, a unit ${open} value; near 0, it ${closed} one.`];
    },
    picture: drawCell,
  },
  attention: {
    page: "attention/",
    sentence: ({ before }) => [
      ...["Each source word gets a score: how well its annotation ", equation("h_j"), " fits the decoder’s state. "],
      "The softmax turns the scores into shares of 100\u00a0%.",
      before ? " A mark shows the share before your change." : "",
    ],
    picture: drawAttention,
  },
  context: {
    page: "attention/",
    sentence: () => ["The annotations, weighted and added: what the decoder sees of the source in this step."],
    picture: drawContext,
  },
  output: {
    page: "decoding/",
    sentence: () => ["The ten most probable of all words. Choose another one, and the translation goes on from there."],
    picture: drawOutput,
  },
};

function vector(symbol, values, note = "") {
  const summary = document.createTextNode(`${values.length} numbers. ${note}`);
  return strips([{ symbol, values }], { symbol, summary, describe: (u) => decimal(values[u]) });
}

function drawCell({ trace, step }, { cell, rows, symbol }) {
  const { previous, update, reset, proposal, next } = trace.steps[step].values.cells[cell];
  const values = [previous, update, reset, proposal, next];
  const mean = update.reduce((sum, value) => sum + value, 0) / update.length;
  const [open, closed] = [Math.max(...update), Math.min(...update)].map((value) => {
    return `unit ${update.indexOf(value) + 1} (${decimal(value)})`;
  });
  const gates = ` (green: open) is ${decimal(mean)} on average, largest in ${open}, smallest in ${closed}.`;
  return strips(
    rows.map((name, n) => ({ symbol: name, values: values[n], isGate: n === 1 || n === 2 })),
    {
      symbol,
      summary: create("span", {}, equation(rows[1]), gates),
      describe(u) {
        const [old, other] = [previous, proposal].map((each) => bracketed(each[u]));
        const share = keeps(trace) ? 1 - update[u] : update[u];
        return `${decimal(1 - share)} · ${old} + ${decimal(share)} · ${other} = ${decimal(next[u])}`;
      },
    },
  );
}

function drawAttention({ trace, step, before, languages }) {
  const { scores, alignment } = trace.steps[step].values;
  const finite = scores.filter(Number.isFinite);
  const [least, most] = [Math.min(0, ...finite), Math.max(0, ...finite)];
  const at = (score) => (score - least) / (most - least || 1);
  const headers = ["e_{ij}", "α_{ij}"].map((symbol) => create("th", { scope: "col" }, equation(symbol)));
  const first = firsts(trace.source);
  const rows = trace.source.map((token, j) => {
    const isOff = !Number.isFinite(scores[j]);
    const hasMoved = before && Math.abs(before[j] - alignment[j]) >= 0.005;
    const score = isOff ? "off" : bar(at(0), at(scores[j]), scores[j] < 0 ? "negative" : "positive");
    const weight = tint(bar(0, alignment[j], "weight", hasMoved ? before[j] : null), alignment[j]);
    const name = { scope: "row", ...languages.source, class: first.has(j) ? null : "continues" };
    const cell = (...children) => create("td", {}, create("div", {}, ...children));
    const cells = [cell(score, numeral(isOff ? "" : decimal(scores[j]))), cell(weight, numeral(share(alignment[j])))];
    return create("tr", { class: isOff ? "off" : null }, create("th", name, written(token)), ...cells);
  });
  const caption = create("caption", { class: "spoken-only" }, "Score and attention weight of each source token");
  const head = create("thead", {}, create("tr", {}, create("td"), ...headers));
  return create("table", {}, caption, head, create("tbody", {}, ...rows));
}

function drawContext({ trace, step }) {
  const { alignment, context } = trace.steps[step].values;
  const D = context.length;
  const order = Array.from(alignment.keys()).sort((a, b) => alignment[b] - alignment[a]);
  const shown = order.slice(0, 3).filter((j) => alignment[j] > 0);
  const weighted = shown.map((j) => trace.annotations.slice(j * D, (j + 1) * D).map((value) => alignment[j] * value));
  const others = context.map((value, d) => weighted.reduce((rest, values) => rest - values[d], value));
  const symbol = (j) => `α_{i${j + 1}} h_{${j + 1}}`;
  const rows = [
    ...shown.map((j, n) => ({ symbol: symbol(j), values: weighted[n], note: nameOf(trace.source[j]) })),
    { symbol: "", values: others, note: "the others" },
    { symbol: "c_i", values: context },
  ];
  return strips(rows, {
    symbol: "c_i",
    summary: document.createTextNode(`${D} numbers. The last strip is the sum of the others.`),
    describe(u) {
      const products = shown.map((j) => `${decimal(alignment[j])} · ${bracketed(trace.annotations[j * D + u])}`);
      return `${[...products, bracketed(others[u])].join(" + ")} = ${decimal(context[u])}`;
    },
  });
}

function drawOutput({ trace, step, languages, choose }) {
  const { next, id: chosen, values } = trace.steps[step];
  const before = trace.steps.slice(0, step).map(({ surface }) => surface);
  const item = (name, probability) => {
    return create("li", {}, name, bar(0, probability, "positive"), numeral(share(probability)));
  };
  const items = next.map(({ id, surface, logProb }) => {
    const kind = firsts([...before, surface]).has(step) ? null : "continues";
    const attributes = { type: "button", "data-key": `next ${id}`, class: kind, ...languages.target };
    const button = create("button", attributes, written(surface));
    button.ariaPressed = String(id === chosen);
    button.addEventListener("click", () => id !== chosen && choose(id));
    return item(button, Math.exp(logProb));
  });
  const rest = next.reduce((sum, { logProb }) => sum - Math.exp(logProb), 1);
  const others = item(create("span", { class: "others" }, "all others"), rest);
  return create("div", {}, vector("t_i", values.features), create("ul", { class: "next" }, ...items, others));
}

/** Returns a token as text: a piece without the mark of a space, and "end" for the sentence's end. */
export function nameOf(token) {
  return token === "" ? "end" : token === "▁" ? "␣" : token.replaceAll("▁", "");
}

/** Returns a token, or a word, as an element. */
export function written(token) {
  return create("span", { class: token === "" ? "end" : null }, nameOf(token));
}

/** Returns the positions of the tokens that begin a word. */
export function firsts(tokens) {
  return new Set(group(tokens).map(({ positions }) => positions[0]));
}

function quoted(token) {
  return create("span", {}, "“", create("bdi", {}, nameOf(token)), "”");
}

function numeral(text) {
  return create("span", { class: "number" }, text);
}

/** Formats a factor or a summand: a negative one in brackets. */
function bracketed(value) {
  return decimal(value).replace(/^−.*/, "($&)");
}
