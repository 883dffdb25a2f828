/** A table of an alignment in percent: a row for each target word, a column for each source word. */

import { percent } from "./sentences.js";
import { direction } from "./words.js";

const CAPTION = "Attention of target words (rows) to source words (columns), in percent";
const SENTENCE_END = "end";
const NOTABLE = 0.05;

/**
 * @param {{source: string[], target: string[], weights: number[][]}} aligned result of `alignWords`
 * @param {string} sourceLanguage code of the source language; "" if unknown
 * @param {string} targetLanguage code of the target language; "" if unknown
 * @returns {HTMLTableElement}
 */
export function createHeatmap({ source, target, weights }, sourceLanguage, targetLanguage) {
  const table = document.createElement("table");
  const caption = document.createElement("span");
  caption.textContent = CAPTION;
  table.createCaption().append(caption);
  const head = table.createTHead().insertRow();
  head.append(document.createElement("td"), ...source.map((word) => header(word, "col", sourceLanguage)));
  const body = table.createTBody();
  target.forEach((word, t) => {
    const row = body.insertRow();
    row.append(header(word, "row", targetLanguage), ...weights[t].map(cell));
  });
  return table;
}

function header(word, scope, lang) {
  const element = document.createElement("th");
  const label = document.createElement("span");
  element.scope = scope;
  label.textContent = word || SENTENCE_END;
  label.className = word ? "" : "end";
  if (word) Object.assign(label, { dir: direction(lang), lang, translate: false });
  element.append(label);
  return element;
}

function cell(weight) {
  const element = document.createElement("td");
  const number = document.createElement("span");
  number.textContent = Math.round(100 * weight);
  number.className = weight < NOTABLE ? "spoken-only" : "";
  element.title = percent(weight);
  element.style.setProperty("--weight", weight.toFixed(3));
  element.append(number);
  return element;
}
