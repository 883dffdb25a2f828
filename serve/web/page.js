/** The page: requests a translation when typing pauses, and shows it or the problem. */

import { config } from "./config.js";
import { EXAMPLES } from "./examples.js";
import { createHeatmap } from "./heatmap.js";
import { createHypotheses, number } from "./hypotheses.js";
import { describe, PASSING, ServiceError } from "./problems.js";
import { createSentences } from "./sentences.js";
import { Service } from "./service.js";
import { alignWords, direction } from "./words.js";

const PAUSE = 350; // milliseconds without a key before a request
const FIRST_WAIT = 1000; // milliseconds before the first retry; they double up to LONGEST_WAIT
const LONGEST_WAIT = 30000;
const KEPT = "text"; // key of the text that is kept while another model is loaded, and of the text in the address

const element = (id) => document.getElementById(id);
const [form, field, result, problem] = ["request", "sentence", "result", "problem"].map(element);

const name = new URLSearchParams(location.search).get("model")?.trim() || config.models[0]?.name;
const settings = settingsOf(name);
const sourceLanguage = settings?.source_language ?? ""; // "" if unknown
const targetLanguage = settings?.target_language ?? "";
for (const id of ["sentence", "source", "example-sentence"]) write(element(id), sourceLanguage);
for (const id of ["target", "whole", "spoken"]) write(element(id), targetLanguage);
form.elements.search.value = settings?.search === "align" ? "align" : "beam";
nameLanguages();
listModels();
const service = new Service(name ?? "", config.timeout_seconds);
const showSentences = createSentences(
  { source: element("source"), target: element("target"), attended: element("attended") },
  () => field.focus(),
);

let request = new AbortController();
let timer = 0;
let wait = FIRST_WAIT;
let shownProblem = "";

form.addEventListener("submit", (event) => event.preventDefault()); // Enter on a choice would reload the page
if (name) {
  form.addEventListener("input", ({ target }) => {
    if (target === field || target.name === "search") ask(target === field ? PAUSE : 0);
  });
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    ask(0);
  });
  element("with-heatmap").addEventListener("input", ({ target }) => {
    element("heatmap").hidden = !target.checked;
    markHeatmap();
  });
  element("heatmap").addEventListener("scroll", markHeatmap);
  addEventListener("resize", markHeatmap);
  element("copy").hidden = !navigator.clipboard; // absent on insecure origins
  element("copy").addEventListener("click", copy);
  addEventListener("online", () => ask(0));
  ask(0);
} else {
  showProblem(new ServiceError("unnamed"));
}

/** Sets language and direction of an element. */
function write(element, lang) {
  Object.assign(element, { lang, dir: direction(lang) });
}

/** Names the languages in the title, the labels and the example. */
function nameLanguages() {
  const [from, to] = [languageName(sourceLanguage), languageName(targetLanguage)];
  if (from && to) element("title").textContent = document.title = `Translate ${from} to ${to}`;
  if (from) field.placeholder = `Type a sentence or a text in ${from}`;
  if (to) element("target-label").textContent = to;
  if (from) document.querySelector("label[for=sentence]").textContent = from;
  const example = EXAMPLES[sourceLanguage.split("-")[0]];
  element("example").hidden = !example;
  element("example-sentence").textContent = example;
  element("example-sentence").addEventListener("click", () => {
    field.value = example;
    field.focus();
    ask(0);
  });
}

/** Returns the English name of a language, or "" if it is unknown. */
function languageName(code) {
  try {
    return (code && new Intl.DisplayNames("en", { type: "language", fallback: "none" }).of(code)) || "";
  } catch {
    return ""; // not a language code
  }
}

/** Offers the models if there is a choice. The typed text is kept for another model of the same language. */
function listModels() {
  const names = config.models.map((model) => model.name);
  element("choice-of-models").hidden = names.every((each) => each === name);
  element("models").replaceChildren(...names.map((each) => new Option(each, each, false, each === name)));
  if (!names.includes(name)) element("models").prepend(new Option("Choose a model", "", true, true));
  element("models").addEventListener("change", ({ target }) => {
    const chosen = target.value;
    target.value = settings ? name : ""; // the browser may show this page again after "Back"
    if (settingsOf(chosen)?.source_language === sourceLanguage) tryStorage((kept) => kept.setItem(KEPT, field.value));
    location.assign(`?${new URLSearchParams({ model: chosen })}`); // without the text in the fragment
  });
  field.value = new URLSearchParams(location.hash.slice(1)).get(KEPT) ?? field.value;
  tryStorage((kept) => {
    field.value = kept.getItem(KEPT) ?? field.value;
    kept.removeItem(KEPT);
  });
}

/** Puts the text into the fragment of the address, which is not sent to a server. Other fragments are kept. */
function nameInAddress(text) {
  const isOurs = new URLSearchParams(location.hash.slice(1)).has(KEPT);
  if (isOurs || (text && !location.hash)) location.replace(text ? `#${new URLSearchParams({ [KEPT]: text })}` : "#");
}

/** Copies the translation. */
async function copy({ target: button }) {
  await navigator.clipboard.writeText(element("spoken").textContent);
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = "Copy"), 2000);
}

/** Marks a heatmap that goes on to the right. */
function markHeatmap() {
  const { classList, scrollLeft, clientWidth, scrollWidth } = element("heatmap");
  classList.toggle("goes-on", scrollLeft + clientWidth < scrollWidth - 1);
}

/** Calls a function with the tab's storage. The page works without it. */
function tryStorage(use) {
  try {
    use(sessionStorage);
  } catch (error) {
    console.warn("sessionStorage:", error.message); // blocked or full
  }
}

/** Returns the settings of a model in config.json. */
function settingsOf(name) {
  return config.models.find((model) => model.name === name);
}

/** Translates the text after `milliseconds`, unless it is called again earlier. */
function ask(milliseconds) {
  clearTimeout(timer);
  request.abort();
  request = new AbortController();
  const { signal } = request;
  timer = setTimeout(() => answer(signal), milliseconds);
  if (typed() === "") showNothing();
}

/** Requests and shows an answer, unless `signal` is aborted. */
async function answer(signal) {
  const text = typed();
  try {
    if (text === "") {
      if (service.model === null) await service.find();
      showModel();
    } else {
      result.ariaBusy = "true";
      const began = performance.now();
      const whole = await service.translateText(text, signal);
      const sentence = text.replace(/\s+/gu, " ");
      const signature = service.model.hasBeam ? form.elements.search.value : "align";
      const found = whole ?? (await service.translate(signature, sentence, signal));
      const milliseconds = performance.now() - began;
      if (signal.aborted) return;
      showModel();
      if (whole) showText(whole, milliseconds);
      else showAnswer(sentence, found, signature, milliseconds);
    }
    wait = FIRST_WAIT;
    nameInAddress(text);
    showProblem(null);
  } catch (error) {
    if (signal.aborted) return;
    const isKnown = error instanceof ServiceError;
    showNothing();
    showProblem(isKnown ? error : new ServiceError("unreadable"));
    if (!isKnown) throw error; // for the browser's console
    if (PASSING.has(error.kind)) {
      timer = setTimeout(() => answer(signal), wait);
      wait = Math.min(2 * wait, LONGEST_WAIT);
    }
  }
}

/** Returns the typed text with composed characters. */
function typed() {
  return field.value.normalize("NFC").trim();
}

/** Shows the version, and the name unless the list of models shows it. */
function showModel() {
  const version = `version ${service.model.version}`;
  const isListed = settings && !element("choice-of-models").hidden;
  element("model").replaceChildren(...(isListed ? [version] : [bdi(name), ` · ${version}`]));
  element("searches").hidden = !service.model.hasBeam;
}

/** Shows the translation of several sentences, without attention. */
function showText({ text, truncated, sentences }, milliseconds) {
  showSentences({ source: [], target: [], weights: [] }, "", "");
  element("whole").textContent = text;
  element("spoken").textContent = text;
  element("hypotheses").replaceChildren();
  const advice = "A sentence, or the whole text, is too long. Enter shorter sentences, or fewer.";
  const facts = `${Math.round(milliseconds)} ms · ${sentences} sentences · enter one sentence to see its attention`;
  showResult(true, truncated && advice, facts);
}

function showAnswer(text, { sourceTokens, truncated, hypotheses }, signature, milliseconds) {
  const show = (hypothesis) => {
    const aligned = alignWords(sourceTokens, hypothesis.tokens, hypothesis.weights);
    showSentences(aligned, text, hypothesis.text);
    element("heatmap").replaceChildren(createHeatmap(aligned, sourceLanguage, targetLanguage));
    element("spoken").textContent = hypothesis.text;
  };
  const [best] = hypotheses;
  show(best);
  const isBeam = signature === "beam";
  element("hypotheses").replaceChildren(...(isBeam ? [createHypotheses(hypotheses, targetLanguage, show)] : []));
  const scores = isBeam ? "" : ` · score ${number(best.score)} · log-probability ${number(best.logProb)}`;
  const advice = "The sentence is too long. The end is struck out. Enter a shorter sentence.";
  showResult(false, truncated && advice, `${Math.round(milliseconds)} ms${scores}`);
}

/**
 * Shows the section of the result: as a text, or as a sentence with its attention.
 *
 * @param {boolean} isText
 * @param {string | false} advice what to do about a truncated text; false for a complete one
 * @param {string} facts
 */
function showResult(isText, advice, facts) {
  element("controls").disabled = isText; // they are for the attention of a sentence
  element("whole").hidden = !isText;
  for (const id of ["target", "source-label", "source", "attended"]) element(id).hidden = isText;
  element("heatmap").hidden = isText || !element("with-heatmap").checked;
  element("truncated").hidden = !advice;
  element("advice").textContent = advice || "";
  element("facts").textContent = facts;
  result.hidden = false;
  markHeatmap();
  result.ariaBusy = "false";
}

function showNothing() {
  element("controls").disabled = false;
  result.hidden = true;
  result.ariaBusy = "false";
  element("spoken").textContent = "";
}

/** Shows a problem once. `null` hides it. */
function showProblem(error) {
  const { title, advice } = error ? describe(error, name, config) : { title: "", advice: "" };
  if (shownProblem === title + advice) return; // otherwise screen readers would repeat the alert
  shownProblem = title + advice;
  problem.replaceChildren();
  if (error === null) return;
  const heading = Object.assign(document.createElement("strong"), { textContent: title });
  const paragraph = Object.assign(document.createElement("p"), { textContent: advice });
  problem.append(heading, paragraph);
  if (error.kind !== "unnamed" && !PASSING.has(error.kind)) {
    const again = Object.assign(document.createElement("button"), { type: "button", textContent: "Try again" });
    again.addEventListener("click", () => {
      field.focus(); // the button disappears with the problem
      showProblem(null);
      ask(0);
    });
    problem.append(again);
  }
}

function bdi(text) {
  return Object.assign(document.createElement("bdi"), { textContent: text });
}
