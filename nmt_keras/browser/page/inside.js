/**
 * "Look inside": goes through a greedy translation word by word. Each step shows the decoder's equations with their
 * values. One can choose another next word, and switch source words off.
 */

import { direction, group } from "../../../serve/web/words.js";
import { create, equation } from "./equations.js";
import { drawRibbons, share } from "./pictures.js";
import { drawStages, firsts, nameOf, written } from "./stages.js";

const PAUSE = 350; // milliseconds without a key before a request
const NOTABLE = 0.05;
const ADVICE = "Greedy search, step by step. Press a source word to switch its attention off.";
const MODELS_CHOICE = { ids: [], hidden: [] };
const isOpen = () => location.hash === "#inside";

/**
 * Adds the view and its tabs to the page. The fragment #inside opens it.
 *
 * @param {object} options
 * @param {HTMLElement} options.main contains the page's form and its section "result"
 * @param {HTMLTextAreaElement} options.field contains the sentence
 * @param {(sentence: string, options: {ids: number[], hidden: number[]}) => Promise<Trace>} options.inspect
 * @param {string} [options.sourceLanguage] code; "" if unknown
 * @param {string} [options.targetLanguage]
 */
export function createInside({ main, field, inspect, sourceLanguage = "", targetLanguage = "" }) {
  const textIn = (lang) => ({ lang, dir: direction(lang), translate: "no" });
  const languages = { source: textIn(sourceLanguage), target: textIn(targetLanguage) };
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.ariaHidden = "true";
  const advice = create("p", { class: "label" }, ADVICE);
  const source = create("div", { class: "tokens", role: "group", "aria-label": "Source", ...languages.source });
  const target = create("div", { class: "tokens", role: "listbox", "aria-label": "Translation", ...languages.target });
  target.ariaOrientation = "horizontal";
  const sentence = create("div", { class: "sentence" }, svg, advice, source, target);
  const steps = create("div", { class: "steps" });
  const note = create("p", { class: "note" });
  const head = create("div", { class: "head" }, sentence, steps, note);
  const flow = create("ol", { class: "flow" });
  const content = create("div", {}, head, flow);
  const problem = create("p", { class: "note" });
  const spoken = create("p", { class: "spoken-only", role: "status" });
  const panel = create("section", { id: "inside", role: "tabpanel", "aria-labelledby": "tab-inside" });
  panel.append(problem, content, spoken);

  let typed = ""; // the sentence of the trace
  let choice = MODELS_CHOICE;
  let [trace, original] = [null, null]; // `original` is the trace of the model's choice
  let [words, attended] = [[], []]; // source words, and for each step their weights
  let step = 0;
  let [asked, timer] = [0, 0];

  /** Traces the typed sentence after `milliseconds`, if it is another one. */
  function ask(milliseconds) {
    clearTimeout(timer);
    timer = setTimeout(() => {
      const text = field.value.normalize("NFC").replace(/\s+/gu, " ").trim();
      if (!isOpen() || (text === typed && trace)) return;
      [typed, step] = [text, 0];
      change(MODELS_CHOICE);
    }, milliseconds);
  }

  /** Traces the sentence with the learner's choice: the first target tokens, and the hidden source positions. */
  async function change(chosen) {
    const number = ++asked;
    content.ariaBusy = "true";
    let failure = "";
    const found = typed && (await inspect(typed, chosen).catch(({ message }) => ((failure = message), null)));
    if (number !== asked) return;
    [trace, choice] = [found || null, chosen];
    if (choice === MODELS_CHOICE) original = trace;
    if (typed && !trace && !failure) failure = "The model translates no words of this text: it copies the text.";
    if (trace?.truncated) failure = "The sentence is too long. Its end was not read.";
    if (trace?.sentences > 1) failure = `The first of ${trace.sentences} sentences is shown.`;
    problem.textContent = failure;
    problem.hidden = !failure;
    content.hidden = !trace;
    content.ariaBusy = "false";
    if (!trace) return;
    words = group(trace.source);
    attended = trace.steps.map(attendedIn);
    go(step, `Translation: “${trace.text}”. `);
  }

  /** Shows a step. The elements are drawn anew; the one that has the focus keeps it. `said` is news to say first. */
  function go(number, said = "") {
    step = Math.min(Math.max(number, 0), trace.steps.length - 1);
    const key = document.activeElement?.dataset.key;
    drawSource();
    drawTarget();
    drawSteps();
    const ids = trace.steps.slice(0, step).map(({ id }) => id);
    const hasBefore = choice !== MODELS_CHOICE && ids.every((id, n) => id === original.steps[n]?.id);
    const before = (hasBefore && original.steps[step]?.values.alignment) || null;
    const choose = (id) => change({ ...choice, ids: [...ids, id] });
    flow.replaceChildren(...drawStages({ trace, step, before, languages, choose }));
    if (key) content.querySelector(`[data-key="${key}"]`)?.focus({ preventScroll: true });
    requestAnimationFrame(draw); // its layout is not part of this task
    const most = attended[step].filter(({ weight }) => weight >= NOTABLE);
    const sources = most.slice(0, 3).map(({ text, weight }) => `“${nameOf(text)}” ${share(weight)}`);
    const name = nameOf(trace.steps[step].surface);
    spoken.textContent = `${said}Step ${step + 1} of ${trace.steps.length}: “${name}” attends to ${sources.join(", ")}`;
  }

  /** Returns the source words with their attention in a step, most attended first. */
  function attendedIn({ values: { alignment } }) {
    const sum = (positions) => positions.reduce((total, j) => total + alignment[j], 0);
    const attended = words.map(({ text, positions }, index) => ({ text, index, weight: sum(positions) }));
    return attended.sort((a, b) => b.weight - a.weight);
  }

  function drawSource() {
    const isOn = ({ positions }) => !positions.every((j) => choice.hidden.includes(j));
    const count = words.filter(isOn).length;
    const buttons = words.map((word, index) => {
      const attributes = { type: "button", class: "token", "data-key": `source ${index}` };
      const button = create("button", attributes, written(word.text));
      button.ariaPressed = String(isOn(word));
      button.disabled = count === 1 && isOn(word); // attention needs a word
      button.addEventListener("click", () => {
        const others = choice.hidden.filter((j) => !word.positions.includes(j));
        change({ ...choice, hidden: isOn(word) ? [...others, ...word.positions] : others });
      });
      return button;
    });
    source.replaceChildren(...buttons);
    note.hidden = choice.hidden.length === 0;
    note.textContent = "The encoder still reads such words. Annotations of their neighbours contain a part of them.";
  }

  function drawTarget() {
    const same = common(original.steps, trace.steps);
    const first = firsts(trace.steps.map(({ surface }) => surface));
    const options = trace.steps.map(({ surface }, number) => {
      const attributes = { class: "token", role: "option", "data-key": `target ${number}` };
      const option = create("span", attributes, written(surface));
      option.classList.toggle("continues", !first.has(number));
      option.classList.toggle("changed", !same.has(number));
      option.classList.toggle("later", number > step);
      option.ariaSelected = String(number === step);
      option.tabIndex = number === step ? 0 : -1;
      option.addEventListener("click", () => move(number));
      return option;
    });
    target.replaceChildren(...options);
  }

  function drawSteps() {
    const button = (label, key, action) => {
      const made = create("button", { type: "button", "data-key": key }, label);
      made.addEventListener("click", action);
      return made;
    };
    const previous = button("Previous", "previous", () => go(step - 1));
    const next = button("Next", "next", () => go(step + 1));
    previous.disabled = step === 0;
    next.disabled = step === trace.steps.length - 1;
    const word = create("bdi", languages.target, nameOf(trace.steps[step].surface));
    const place = create("span", {}, "Step ", equation("i"), ` = ${step + 1} of ${trace.steps.length}: `, word);
    const back = button("Back to the model’s choice", "back", () => change(MODELS_CHOICE));
    const former = create("span", { class: "former" }, "It was: ", create("bdi", languages.target, original.text));
    steps.replaceChildren(previous, next, place, ...(choice === MODELS_CHOICE ? [] : [back, former]));
  }

  /** Draws the ribbons, and lets the sentence stay in sight if it is small. */
  function draw() {
    if (!trace || !isOpen()) return;
    head.classList.toggle("stays", sentence.offsetHeight + steps.offsetHeight < 0.35 * innerHeight);
    drawRibbons(svg, source.children, target.children, attended, step);
  }

  function move(number) {
    go(number);
    target.children[step].focus();
  }

  target.addEventListener("keydown", (event) => {
    const forward = getComputedStyle(target).direction === "rtl" ? "ArrowLeft" : "ArrowRight";
    const moves = { ArrowLeft: -1, ArrowRight: -1, [forward]: 1, Home: -Infinity, End: Infinity };
    if (!(event.key in moves) || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    move(step + moves[event.key]);
  });
  main.addEventListener("input", (event) => event.target === field && ask(PAUSE));
  main.addEventListener("click", (event) => event.target.closest("#example") && ask(0));
  field.addEventListener("keydown", ({ key, shiftKey }) => key === "Enter" && !shiftKey && ask(0));
  new ResizeObserver(draw).observe(sentence);
  [problem.hidden, content.hidden] = [true, true];
  main.querySelector("#result").after(panel);
  createTabs(main, panel, () => ask(0));
}

/** Returns the positions in `after` of a longest common subsequence of the steps of two translations. */
function common(before, after) {
  const lengths = Array.from({ length: before.length + 1 }, () => new Array(after.length + 1).fill(0));
  for (let i = before.length - 1; i >= 0; i--) {
    for (let j = after.length - 1; j >= 0; j--) {
      const longer = Math.max(lengths[i + 1][j], lengths[i][j + 1]);
      lengths[i][j] = before[i].id === after[j].id ? lengths[i + 1][j + 1] + 1 : longer;
    }
  }
  const found = new Set();
  for (let i = 0, j = 0; i < before.length && j < after.length; ) {
    if (before[i].id === after[j].id) [i] = [i + 1, found.add(j++)];
    else if (lengths[i + 1][j] >= lengths[i][j + 1]) i++;
    else j++;
  }
  return found;
}

/** Adds the tabs "Translate" and "Look inside". `opened` is called when a tab is chosen. */
function createTabs(main, panel, opened) {
  const tab = (shown, title) =>
    create("button", { type: "button", role: "tab", id: `tab-${shown}`, "aria-controls": shown }, title);
  const tabs = [tab("result", "Translate"), tab("inside", "Look inside")];
  const show = () => {
    main.dataset.view = isOpen() ? "inside" : "translate";
    panel.hidden = !isOpen();
    for (const [n, each] of tabs.entries()) {
      each.ariaSelected = String(Boolean(n) === isOpen());
      each.tabIndex = Boolean(n) === isOpen() ? 0 : -1;
    }
    opened();
  };
  for (const [n, each] of tabs.entries()) {
    each.addEventListener("click", () => (location.hash = n ? "inside" : "translate"));
    each.addEventListener("keydown", ({ key }) => {
      if (key !== "ArrowLeft" && key !== "ArrowRight") return;
      tabs[1 - n].click();
      tabs[1 - n].focus();
    });
  }
  addEventListener("hashchange", show);
  main.prepend(create("div", { class: "choice views", role: "tablist", "aria-label": "View" }, ...tabs));
  show();
}
