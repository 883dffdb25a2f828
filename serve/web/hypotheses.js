/** A table of the hypotheses of beam search, best first. The page shows the selected hypothesis with its alignment. */

import { direction } from "./words.js";

/**
 * @param {import("./service.js").Hypothesis[]} hypotheses
 * @param {string} lang code of their language; "" if unknown
 * @param {(hypothesis: import("./service.js").Hypothesis) => void} choose
 * @returns {HTMLTableElement}
 */
export function createHypotheses(hypotheses, lang, choose) {
  const table = document.createElement("table");
  const count = hypotheses.length;
  table.createCaption().textContent = count > 1 ? `The ${count} best, by score` : "The only hypothesis";
  const head = table.createTHead().insertRow();
  for (const title of ["Translation", "Score", "Log-probability"]) {
    head.append(Object.assign(document.createElement("th"), { scope: "col", textContent: title }));
  }
  const body = table.createTBody();
  hypotheses.forEach((hypothesis, rank) => {
    const row = body.insertRow();
    const button = document.createElement("button");
    Object.assign(button, { type: "button", dir: direction(lang), lang, translate: false, textContent: hypothesis.text });
    button.ariaPressed = String(rank === 0);
    button.addEventListener("click", () => {
      for (const one of body.querySelectorAll("button")) one.ariaPressed = String(one === button);
      choose(hypothesis);
    });
    row.insertCell().append(button);
    row.insertCell().textContent = number(hypothesis.score);
    row.insertCell().textContent = number(hypothesis.logProb);
  });
  return table;
}

/** Formats a number with two decimals and a minus sign. Returns a dash for null. */
export function number(value) {
  return value === null ? "–" : value.toFixed(2).replace("-", "−");
}
