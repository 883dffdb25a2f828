/** The page: requests a translation when typing pauses, and shows it or the problem. */

import { fragmentWith, inAddress } from "./address.js";
import { config } from "./config.js";
import { create, createButton, decimal, setAttributes, textIn } from "./elements.js";
import { EXAMPLES } from "./examples.js";
import { describe, PASSING, ServiceError } from "./problems.js";
import { createSentences } from "./sentences.js";
import { Service } from "./service.js";
import { createHeatmap, createHypotheses } from "./tables.js";
import { alignWords } from "./words.js";

const PAUSE = 350; // milliseconds without a key before a request
const FIRST_WAIT = 1000; // milliseconds before the first retry; they double up to LONGEST_WAIT
const LONGEST_WAIT = 30000;
const TEXT = "text"; // key of the text in the address

const element = (id) => document.getElementById(id);
const settingsOf = (name) => config.models.find((model) => model.name === name);
const typed = () => field.value.normalize("NFC").trim();
const [form, field, result, problem] = ["request", "sentence", "result", "problem"].map(element);

const name = new URLSearchParams(location.search).get("model")?.trim() || config.models[0]?.name;
const settings = settingsOf(name);
const sourceLanguage = String(settings?.source_language ?? ""); // "" if unknown
const targetLanguage = String(settings?.target_language ?? "");
const [source, target] = [sourceLanguage, targetLanguage].map(languageName);
const service = new Service(name ?? "", config.timeout_seconds);
const boxes = { source: element("source"), target: element("target") };
const showSentences = createSentences(boxes, element("attended"), () => field.focus());

let request = new AbortController();
let timer = 0;
let wait = FIRST_WAIT;
let shownProblem = "";
let inHistory = inAddress(TEXT); // the text that the page has put into the address, or taken from it

for (const id of ["sentence", "source", "example-sentence"]) setAttributes(element(id), textIn(sourceLanguage));
for (const id of ["target", "whole", "spoken"]) setAttributes(element(id), textIn(targetLanguage));
form.elements.search.value = settings?.search === "align" ? "align" : "beam";
element("limitations").append(...(settings?.limitations ?? []).map((each) => create("li", {}, each)));
nameLanguages();
listModels();
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
  addEventListener("hashchange", takeFromAddress);
  ask(0);
} else {
  showProblem(new ServiceError("unnamed"));
}

/** Names the languages in the title, the labels and the example. */
function nameLanguages() {
  if (source && target) element("title").textContent = document.title = `Translate ${source} to ${target}`;
  if (source) field.placeholder = `Type a sentence or a text in ${source}`;
  if (source) document.querySelector("label[for=sentence]").textContent = source;
  if (target) element("target-label").textContent = target;
  element("language").textContent =
    `The text seems to be ${target || "in the target language"}. The model translates from ${source || "another one"}.`;
  const example = EXAMPLES[sourceLanguage] ?? EXAMPLES[sourceLanguage.split("-")[0]];
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

/** Offers the models if there is a choice. The address hands the text to another model of the same language. */
function listModels() {
  const names = config.models.map((model) => model.name);
  element("choice-of-models").hidden = names.every((each) => each === name);
  element("models").replaceChildren(...names.map((each) => new Option(each, each, false, each === name)));
  if (!names.includes(name)) element("models").prepend(new Option("Choose a model", "", true, true));
  element("models").addEventListener("change", ({ target }) => {
    const chosen = target.value;
    target.value = settings ? name : ""; // the browser may show this page again after "Back"
    const isKept = settingsOf(chosen)?.source_language === sourceLanguage;
    location.assign(`?${new URLSearchParams({ model: chosen })}${isKept ? fragmentWith(TEXT, field.value) : ""}`);
  });
  field.value = inHistory ?? field.value;
}

/** Puts the text into the address. */
function nameInAddress(text) {
  if (text !== (inAddress(TEXT) ?? "")) location.replace(fragmentWith(TEXT, text));
  inHistory = inAddress(TEXT);
}

/** Translates another text that the address has got from its reader or from the history. */
function takeFromAddress() {
  const text = inAddress(TEXT);
  if (text === null || text === inHistory) return;
  field.value = inHistory = text;
  ask(0);
}

async function copy({ target: button }) {
  const written = navigator.clipboard.writeText(element("spoken").textContent);
  button.textContent = await written.then(() => "Copied", () => "Not permitted"); // in a frame of another page
  setTimeout(() => (button.textContent = "Copy"), 2000);
}

/** Marks a heatmap that goes on to the right. */
function markHeatmap() {
  const { classList, scrollLeft, clientWidth, scrollWidth } = element("heatmap");
  classList.toggle("goes-on", scrollLeft + clientWidth < scrollWidth - 1);
}

/** Translates the text after `milliseconds`, unless it is called again earlier. */
function ask(milliseconds) {
  clearTimeout(timer);
  request.abort();
  request = new AbortController();
  const { signal } = request;
  timer = setTimeout(() => {
    field.dispatchEvent(new Event("ask")); // for other views of the text
    answer(signal);
  }, milliseconds);
  if (typed() === "") showNothing();
}

/** Requests and shows an answer, unless `signal` is aborted. */
async function answer(signal) {
  const text = typed();
  try {
    result.ariaBusy = String(text !== "");
    const began = performance.now();
    const found = await (text ? service.translate(text, form.elements.search.value, signal) : service.find());
    if (signal.aborted) return;
    showModel();
    if (text) showAnswer(found, text, performance.now() - began);
    wait = FIRST_WAIT;
    nameInAddress(text);
    showProblem(null);
  } catch (error) {
    if (signal.aborted) return;
    const isKnown = error instanceof ServiceError;
    showNothing();
    showProblem(isKnown ? error : new ServiceError("broken", error.message));
    if (!isKnown) throw error; // for the browser's console
    if (PASSING.has(error.kind)) {
      timer = setTimeout(() => answer(signal), wait);
      wait = Math.min(2 * wait, LONGEST_WAIT);
    }
  }
}

/** Shows the version, and the name unless the list of models shows it. */
function showModel() {
  const version = `version ${service.model.version}`;
  const isListed = settings && !element("choice-of-models").hidden;
  element("model").replaceChildren(...(isListed ? [version] : [create("bdi", {}, name), ` · ${version}`]));
  element("searches").hidden = !service.model.signatures.includes("beam");
}

/** Shows an answer: the translation of a text, or that of a sentence with its attention. */
function showAnswer(found, typed, milliseconds) {
  const { sourceTokens, text, before, after } = found;
  const hypotheses = found.hypotheses?.map((each) => ({ ...each, text: before + each.text + after }));
  const isText = found.sentences > 1;
  const facts = [`${Math.round(milliseconds)} ms`];
  const show = ({ text, tokens, weights }) => {
    const aligned = alignWords(sourceTokens, tokens, weights);
    showSentences(aligned, typed.replace(/[^\S\uFEFF]+/gu, " "), text);
    element("heatmap").replaceChildren(createHeatmap(aligned, sourceLanguage, targetLanguage));
    element("spoken").textContent = text;
    markHeatmap();
  };
  element("hypotheses").replaceChildren();
  if (isText) {
    element("whole").textContent = element("spoken").textContent = text;
    facts.push(`${found.sentences} sentences`, "enter one sentence to see its attention");
  } else {
    const [best] = hypotheses;
    show(best);
    const isBeam = !element("searches").hidden && form.elements.search.value === "beam";
    if (isBeam) element("hypotheses").append(createHypotheses(hypotheses, targetLanguage, show));
    else facts.push(`score ${decimal(best.score)}`, `log-probability ${decimal(best.logProb)}`);
  }
  element("controls").disabled = isText; // they are for the attention of a sentence
  element("whole").hidden = !isText;
  for (const id of ["target", "source-label", "source", "attended"]) element(id).hidden = isText;
  element("heatmap").hidden = isText || !element("with-heatmap").checked;
  element("truncated").hidden = !found.truncated;
  element("advice").textContent = isText
    ? "A sentence, or the whole text, is too long. Enter shorter sentences, or fewer."
    : "The sentence is too long. The end is struck out. Enter a shorter sentence.";
  element("language").hidden = !found.isInTargetLanguage;
  element("facts").textContent = facts.join(" · ");
  result.hidden = false;
  result.ariaBusy = "false";
  markHeatmap();
}

function showNothing() {
  element("controls").disabled = false;
  result.hidden = true;
  result.ariaBusy = "false";
  element("spoken").textContent = "";
}

/** Shows a problem once. `null` hides it. */
function showProblem(error) {
  const [title, advice] = error ? describe(error, name, config.models.length > 0) : ["", ""];
  if (shownProblem === title + advice) return; // otherwise screen readers would repeat the alert
  shownProblem = title + advice;
  problem.replaceChildren();
  if (error === null) return;
  problem.append(create("strong", {}, title), create("p", {}, advice));
  if (["unnamed", "stopped"].includes(error.kind) || PASSING.has(error.kind)) return; // another try cannot help
  const again = () => {
    field.focus(); // the button disappears with the problem
    showProblem(null);
    ask(0);
  };
  problem.append(createButton({}, again, "Try again"));
}
