/** The stages of one step of the decoder: equations, sentences and pictures. */

import { create, createButton, decimal, percent, quoted } from "../../../serve/web/elements.js";
import { group } from "../../../serve/web/words.js";
import { cellEquations, equation } from "./equations.js";
import { bar, strips } from "./pictures.js";

const CONCEPTS = "https://nmt-keras.github.io/nmt_keras/concepts/";

/**
 * Returns the stages of a step of a Trace (see inspect.js) as items of a list. `before` is alpha_ij [S] before the
 * learner's change, null if the words before differ; `languages` are attributes of texts; `choose` takes another word.
 */
export function drawStages(shown) {
  return stagesOf(shown).map(({ symbol, title, page, equations, sentence, picture }) => {
    const label = { "aria-label": `More about: ${title}`, target: "_blank", rel: "noopener" };
    const link = create("a", { href: `${CONCEPTS}${page}/`, ...label }, "More");
    const sign = create("span", { class: "sign", "aria-hidden": "true" }, create("span", {}, equation(symbol)));
    const written = equations.map((each) => create("p", { class: "equation" }, equation(each)));
    const text = [create("h2", {}, sign, title), ...written, create("p", {}, ...sentence, " ", link)];
    return create("li", {}, create("div", {}, ...text), create("div", { class: "picture" }, picture));
  });
}

/** Returns the stages in the order of their computation; `page` is one of the documentation. */
function stagesOf(shown) {
  const { trace, step, before } = shown;
  const { order, cell: kind, layers, output_state } = trace.decoder;
  const { values } = trace.steps[step];
  const last = trace.steps[step - 1];
  const isConditional = order === "conditional";
  const keeps = kind === "gru-reset-after"; // an update gate of 1 keeps the state
  const [open, closed] = keeps ? ["keeps its old", "takes a new"] : ["takes a new", "keeps its old"];
  const cell = (number, title, prime, reads, state) => ({
    ...{ symbol: `s${prime}_i`, title, page: "decoding", equations: cellEquations(kind, prime, reads, state) },
    sentence: ["Where the update gate ", equation("z"), ` is near 1, a unit ${open} value; near 0, it ${closed} one.`],
    picture: drawCell(values.cells[number], prime, state, keeps),
  });
  const word = ["W", "e(y_{i-1})"];
  const context = ["C", "c_i"];
  const query = isConditional ? "s'_i" : "s_{i-1}";
  const higher = Array.from({ length: layers - 1 }, (_, n) =>
    cell(n + 1 + isConditional, `Layer ${n + 2}`, "", [["W", "s_i"]], "s_{i-1}"),
  );
  return [
    {
      ...{ symbol: "e(y_{i-1})", title: "The word before", page: "decoding", equations: [] },
      sentence: last
        ? ["The decoder reads the vector of ", quoted(nameOf(last.surface)), ", as training has found it."]
        : ["No word has been written yet: the decoder reads the vector of a start symbol."],
      picture: vector("e(y_{i-1})", values.embedded, "Orange ones are positive, blue ones negative."),
    },
    ...(isConditional ? [cell(0, "The word changes the state", "'", [word], "s_{i-1}")] : []),
    {
      ...{ symbol: "α_{ij}", title: "Attention", page: "attention" },
      equations: [`e_{ij} = v_a · tanh(W_a ${query} + U_a h_j)`, "α_{ij} = [exp(e_{ij}) | Σ_k exp(e_{ik})]"],
      sentence: [
        ...["Each source word gets a score: how well its annotation ", equation("h_j"), " fits the decoder’s state. "],
        "The softmax turns the scores into shares of 100\u00a0%.",
        before ? " A mark shows the share before your change." : "",
      ],
      picture: drawAttention(shown),
    },
    {
      ...{ symbol: "c_i", title: "The context", page: "attention", equations: ["c_i = Σ_j α_{ij} h_j"] },
      sentence: ["The annotations, weighted and added: what the decoder sees of the source in this step."],
      picture: drawContext(trace, values),
    },
    isConditional
      ? cell(1, "The context changes the state", "", [context], "s'_i")
      : cell(0, "Word and context change the state", "", [word, context], "s_{i-1}"),
    ...higher,
    {
      ...{ symbol: "y_i", title: "The next word", page: "decoding" },
      equations: [
        `t_i = maxout(U_o ${output_state === "previous" ? "s_{i-1}" : "s_i"} + V_o e(y_{i-1}) + C_o c_i + b_m)`,
        "p(y_i | y_{<i}, x) = softmax(W_o t_i + b_o)",
      ],
      sentence: ["The ten most probable of all words. Choose another one, and the translation goes on from there."],
      picture: create("div", {}, vector("t_i", values.features), drawOutput(shown)),
    },
  ];
}

function vector(symbol, values, note = "") {
  return strips(symbol, [{ symbol, values }], `${values.length} numbers. ${note}`, (u) => decimal(values[u]));
}

function drawCell({ previous, update, reset, proposal, next }, prime, state, keeps) {
  const symbols = [state, ...["z", "r", "s~", "s"].map((letter) => `${letter}${prime}_i`)];
  const rows = [previous, update, reset, proposal, next].map((values, n) => {
    return { symbol: symbols[n], values, isGate: values === update || values === reset };
  });
  const mean = update.reduce((sum, value) => sum + value, 0) / update.length;
  const [most, least] = [Math.max(...update), Math.min(...update)].map((value) => {
    return `unit ${update.indexOf(value) + 1} (${decimal(value)})`;
  });
  const gates = ` (green: open) is ${decimal(mean)} on average, largest in ${most}, smallest in ${least}.`;
  return strips(symbols.at(-1), rows, create("span", {}, equation(symbols[1]), gates), (u) => {
    const taken = keeps ? 1 - update[u] : update[u];
    const [old, other] = [previous, proposal].map((each) => bracketed(each[u]));
    return `${decimal(1 - taken)} · ${old} + ${decimal(taken)} · ${other} = ${decimal(next[u])}`;
  });
}

function drawAttention({ trace, step, before, languages }) {
  const { scores, alignment } = trace.steps[step].values;
  const finite = scores.filter(Number.isFinite);
  const [least, most] = [Math.min(0, ...finite), Math.max(0, ...finite)];
  const at = (score) => (score - least) / (most - least || 1);
  const cell = (picture, text) => create("td", {}, create("div", {}, picture, numeral(text)));
  const first = firsts(trace.source);
  const rows = trace.source.map((token, j) => {
    const isOff = !Number.isFinite(scores[j]);
    const hasMoved = before && Math.abs(before[j] - alignment[j]) >= 0.005;
    const name = { scope: "row", ...languages.source, class: first.has(j) ? null : "continues" };
    return create(
      ...["tr", { class: isOff ? "off" : null }, create("th", name, written(token))],
      isOff ? cell("off", "") : cell(bar(at(0), at(scores[j])), decimal(scores[j])),
      cell(bar(0, alignment[j], hasMoved ? before[j] : null), share(alignment[j])),
    );
  });
  const headers = ["e_{ij}", "α_{ij}"].map((symbol) => create("th", { scope: "col" }, equation(symbol)));
  const caption = create("caption", { class: "spoken-only" }, "Score and attention weight of each source token");
  const head = create("thead", {}, create("tr", {}, create("td"), ...headers));
  return create("table", {}, caption, head, create("tbody", {}, ...rows));
}

function drawContext({ annotations, source }, { alignment, context }) {
  const D = context.length;
  const order = [...alignment.keys()].sort((a, b) => alignment[b] - alignment[a]);
  const shown = order.slice(0, 3).filter((j) => alignment[j] > 0);
  const weighted = shown.map((j) => annotations.slice(j * D, (j + 1) * D).map((value) => alignment[j] * value));
  const others = context.map((value, d) => weighted.reduce((rest, values) => rest - values[d], value));
  const rows = [
    ...shown.map((j, n) => ({ symbol: `α_{i${j + 1}} h_{${j + 1}}`, values: weighted[n], note: nameOf(source[j]) })),
    { symbol: "", values: others, note: "the others" },
    { symbol: "c_i", values: context },
  ];
  const summary = `${D} numbers. The last strip is the sum of the others.`;
  return strips("c_i", rows, summary, (u) => {
    const products = shown.map((j) => `${decimal(alignment[j])} · ${bracketed(annotations[j * D + u])}`);
    return `${[...products, bracketed(others[u])].join(" + ")} = ${decimal(context[u])}`;
  });
}

function drawOutput({ trace, step, languages, choose }) {
  const { next, id: chosen } = trace.steps[step];
  const before = trace.steps.slice(0, step).map(({ surface }) => surface);
  const item = (name, probability) => create("li", {}, name, bar(0, probability), numeral(share(probability)));
  const items = next.map(({ id, surface, logProb }) => {
    const kind = firsts([...before, surface]).has(step) ? null : "continues";
    const attributes = { "data-key": `next ${id}`, class: kind, "aria-pressed": id === chosen, ...languages.target };
    return item(createButton(attributes, () => id !== chosen && choose(id), written(surface)), Math.exp(logProb));
  });
  const rest = next.reduce((sum, { logProb }) => sum - Math.exp(logProb), 1);
  return create("ul", { class: "next" }, ...items, item(create("span", { class: "others" }, "all others"), rest));
}

/** Returns a token as text: a piece without the mark of a space, and "end" for the sentence's end. */
export function nameOf(token) {
  return token === "" ? "end" : token === "▁" ? "␣" : token.replaceAll("▁", "");
}

/** Returns a token, or a word, as an element. */
export const written = (token) => create("span", { class: token === "" ? "end" : null }, nameOf(token));

/** Returns the positions of the tokens that begin a word. */
export const firsts = (tokens) => new Set(group(tokens).map(({ positions }) => positions[0]));

const numeral = (text) => create("span", { class: "number" }, text);

/** Formats a share in percent: with one decimal below 10 %, so that small shares differ. */
const share = (weight) => percent(weight, weight < 0.0995 ? 1 : 0);

/** Formats a factor or a summand: a negative one in brackets. */
const bracketed = (value) => decimal(value).replace(/^−.*/, "($&)");
