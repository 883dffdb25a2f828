/** Tables of an answer: the hypotheses of beam search, and the heatmap of an alignment. */

import { create, createButton, decimal, NOTABLE, percent, textIn } from "./elements.js";

/** Returns a table of hypotheses, best first, in the language `lang`. `choose` is called with the pressed one. */
export function createHypotheses(hypotheses, lang, choose) {
  const buttons = hypotheses.map((hypothesis, rank) => {
    const press = () => {
      for (const [n, button] of buttons.entries()) button.ariaPressed = String(n === rank);
      choose(hypothesis);
    };
    return createButton({ "aria-pressed": rank === 0, ...textIn(lang) }, press, hypothesis.text);
  });
  const rows = hypotheses.map(({ score, logProb }, rank) => {
    return [buttons[rank], decimal(score), decimal(logProb)].map((content) => create("td", {}, content));
  });
  const titles = ["Translation", "Score", "Log-probability"].map((title) => create("th", { scope: "col" }, title));
  const count = hypotheses.length;
  return createTable(count > 1 ? `The ${count} best, by score` : "The only hypothesis", titles, rows);
}

/** Returns a table of an alignment of words: a row for each target word, a column for each source word. */
export function createHeatmap({ source, target, weights }, sourceLanguage, targetLanguage) {
  const header = (word, scope, lang) => {
    const attributes = word === "" ? { class: "end" } : textIn(lang);
    return create("th", { scope }, create("span", attributes, word || "end"));
  };
  const cell = (weight) => {
    const number = create("span", { class: weight < NOTABLE ? "spoken-only" : null }, String(Math.round(100 * weight)));
    const element = create("td", { title: percent(weight) }, number);
    element.style.setProperty("--weight", weight.toFixed(3));
    return element;
  };
  const columns = source.map((word) => header(word, "col", sourceLanguage));
  const rows = target.map((word, t) => [header(word, "row", targetLanguage), ...weights[t].map(cell)]);
  const caption = "Attention of target words (rows) to source words (columns), in percent";
  return createTable(caption, [create("td"), ...columns], rows);
}

function createTable(caption, head, rows) {
  const row = (cells) => create("tr", {}, ...cells);
  const title = create("caption", {}, create("span", {}, caption));
  return create("table", {}, title, create("thead", {}, row(head)), create("tbody", {}, ...rows.map(row)));
}
