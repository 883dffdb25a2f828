/**
 * "Look inside": goes through a greedy translation word by word. Each step shows the decoder's equations with their
 * values. One can choose another next word, and switch source words off. The fragment #view=inside opens the view.
 */

import { fragmentWith, inAddress } from "../../../serve/web/address.js";
import { create, createButton, movedBy, NOTABLE, percent, setAttributes, textIn } from "../../../serve/web/elements.js";
import { describe } from "../../../serve/web/problems.js";
import { group } from "../../../serve/web/words.js";
import { drawRibbons } from "./pictures.js";
import { drawStages, firsts, nameOf, written } from "./stages.js";

const MODELS_CHOICE = { ids: [], hidden: [] };
const element = (id) => document.getElementById(id);
const isOpen = () => inAddress("view") === "inside";

/** Starts the view of the page's text, with the `inspect` of service.js, and the codes of the languages. */
export function createInside(inspect, sourceLanguage = "", targetLanguage = "") {
  const [field, panel, traced, source, target] = ["sentence", "inside", "traced", "read", "written"].map(element);
  const [svg, head, flow] = ["svg", ".head", ".flow"].map((selector) => panel.querySelector(selector));
  const [sentence, steps] = head.children;
  const languages = { source: textIn(sourceLanguage), target: textIn(targetLanguage) };
  setAttributes(source, languages.source);
  for (const each of [target, ...steps.querySelectorAll("bdi")]) setAttributes(each, languages.target);

  let typed = ""; // the sentence of the trace
  let choice = MODELS_CHOICE; // the learner's: first target tokens, and hidden source positions
  let trace = null;
  let original = null; // trace of the model's choice
  let sourceWords = [];
  let step = 0;
  let request = new AbortController();

  /** Traces the typed sentence, if it is another one. */
  function ask() {
    const text = field.value.normalize("NFC").trim();
    if (!isOpen() || (text === typed && trace)) return;
    [typed, step] = [text, 0];
    change(MODELS_CHOICE);
  }

  /** Traces the sentence with a choice. */
  async function change(chosen) {
    if (chosen !== MODELS_CHOICE && traced.ariaBusy === "true") return; // it is of the sentence before
    request.abort();
    request = new AbortController();
    const { signal } = request;
    traced.ariaBusy = "true";
    let fault = "";
    const fail = (error) => void (fault = describe(error)?.join(". ")); // an aborted request has no description
    const found = typed && (await inspect(signal, typed, chosen).catch(fail));
    if (signal.aborted) return;
    [trace, choice] = [found || null, chosen];
    if (choice === MODELS_CHOICE) original = trace;
    if (typed && !trace && !fault) fault = "The model translates no words of this text: it copies the text.";
    if (trace?.truncated) fault = "The sentence is too long. Its end was not read.";
    if (trace?.sentences > 1) fault = `The first of ${trace.sentences} sentences is shown.`;
    element("fault").textContent = fault;
    element("fault").hidden = !fault;
    traced.hidden = !trace;
    traced.ariaBusy = "false";
    if (!trace) return;
    sourceWords = group(trace.source);
    go(step, `Translation: “${trace.text}”. `);
  }

  /** Shows a step. Words are drawn anew; the element that has the focus keeps it. `said` is news to say first. */
  function go(number, said = "") {
    const { length } = trace.steps;
    step = Math.min(Math.max(number, 0), length - 1);
    const key = document.activeElement?.dataset.key;
    const ids = trace.steps.slice(0, step).map(({ id }) => id);
    const isChanged = choice !== MODELS_CHOICE;
    const hasBefore = isChanged && ids.every((id, n) => id === original.steps[n]?.id);
    const before = (hasBefore && original.steps[step]?.values.alignment) || null;
    source.replaceChildren(...drawSource());
    target.replaceChildren(...drawTarget());
    const choose = (id) => change({ ...choice, ids: [...ids, id] });
    flow.replaceChildren(...drawStages({ trace, step, before, languages, choose }));
    if (key) (panel.querySelector(`[data-key="${key}"]`) ?? target.children[step]).focus({ preventScroll: true });
    element("previous").ariaDisabled = String(step === 0); // it keeps the focus
    element("next").ariaDisabled = String(step === length - 1);
    element("place").textContent = `${step + 1} of ${length}`;
    element("word").textContent = nameOf(trace.steps[step].surface);
    element("back").hidden = element("former").hidden = !isChanged;
    element("former").lastChild.textContent = original.text;
    element("unattended").hidden = choice.hidden.length === 0;
    requestAnimationFrame(draw); // its layout is not part of this task
    const most = attendedIn(trace.steps[step]).filter(({ weight }) => weight >= NOTABLE);
    const sources = most.slice(0, 3).map(({ text, weight }) => `“${nameOf(text)}” ${percent(weight)}`);
    const place = `Step ${step + 1} of ${length}: “${element("word").textContent}”`;
    element("step").textContent = `${said}${place} attends to ${sources.join(", ") || "no word in particular"}`;
  }

  /** Returns the source words with their attention in a step, most attended first. */
  function attendedIn({ values: { alignment } }) {
    const weight = (positions) => positions.reduce((total, j) => total + alignment[j], 0);
    const attended = sourceWords.map(({ text, positions }, index) => ({ text, index, weight: weight(positions) }));
    return attended.sort((a, b) => b.weight - a.weight);
  }

  /** Returns the source words as buttons that switch their attention. */
  function drawSource() {
    const isOn = ({ positions }) => !positions.every((j) => choice.hidden.includes(j));
    const count = sourceWords.filter(isOn).length;
    return sourceWords.map((word, index) => {
      const press = () => {
        const others = choice.hidden.filter((j) => !word.positions.includes(j));
        change({ ...choice, hidden: isOn(word) ? [...others, ...word.positions] : others });
      };
      const attributes = { class: "token", "data-key": `source ${index}`, "aria-pressed": isOn(word) };
      const button = createButton(attributes, press, written(word.text));
      button.disabled = count === 1 && isOn(word); // attention needs a word
      return button;
    });
  }

  /** Returns the tokens of the translation as options, which select a step. */
  function drawTarget() {
    const different = changed(original.steps, trace.steps);
    const first = firsts(trace.steps.map(({ surface }) => surface));
    return trace.steps.map((each, number) => {
      const state = { "aria-selected": number === step, tabindex: number === step ? 0 : -1 };
      const attributes = { class: "token", role: "option", "data-key": `target ${number}`, ...state };
      const option = create("span", attributes, written(each.surface));
      option.classList.toggle("continues", !first.has(number));
      option.classList.toggle("changed", different.includes(each));
      option.classList.toggle("later", number > step);
      option.addEventListener("click", () => move(number));
      return option;
    });
  }

  /** Draws the ribbons. The sentence stays in sight if it is small. */
  function draw() {
    if (!trace || !isOpen()) return;
    head.classList.toggle("stays", sentence.offsetHeight + steps.offsetHeight < 0.35 * innerHeight);
    drawRibbons(svg, source.children, target.children, trace.steps.map(attendedIn), step);
  }

  function move(number) {
    go(number);
    target.children[step].focus();
  }

  target.addEventListener("keydown", (event) => {
    const number = movedBy(event.key, target, step, trace.steps.length);
    if (number === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    move(number);
  });
  element("previous").addEventListener("click", () => go(step - 1));
  element("next").addEventListener("click", () => go(step + 1));
  element("back").addEventListener("click", () => {
    move(step); // the button disappears
    change(MODELS_CHOICE);
  });
  field.addEventListener("ask", ask);
  new ResizeObserver(draw).observe(sentence);
  element("result").after(panel);
  startTabs(panel, ask);
}

/** Returns the steps of a translation between the first and the last step that another translation lacks. */
function changed(before, after) {
  const most = Math.min(before.length, after.length);
  const isEqual = (n) => before.at(n).id === after.at(n).id;
  let [begin, end] = [0, 0];
  while (begin < most && isEqual(begin)) begin++;
  while (end < most - begin && isEqual(-1 - end)) end++;
  return after.slice(begin, after.length - end);
}

/** Lets the tabs choose between the translation and the view. `opened` is called when one is chosen. */
function startTabs(panel, opened) {
  const main = panel.parentElement;
  const tabs = [element("tab-result"), element("tab-inside")];
  const show = () => {
    main.dataset.view = isOpen() ? "inside" : "translate";
    panel.hidden = !isOpen();
    for (const [n, tab] of tabs.entries()) {
      tab.ariaSelected = String(Boolean(n) === isOpen());
      tab.tabIndex = Boolean(n) === isOpen() ? 0 : -1;
    }
    opened();
  };
  for (const [n, tab] of tabs.entries()) {
    tab.addEventListener("click", () => (location.hash = fragmentWith("view", n ? "inside" : "")));
    tab.addEventListener("keydown", ({ key }) => {
      if (key !== "ArrowLeft" && key !== "ArrowRight") return;
      tabs[1 - n].click();
      tabs[1 - n].focus();
    });
  }
  addEventListener("hashchange", show);
  main.prepend(element("views"));
  show();
}
