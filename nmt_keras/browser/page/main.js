/** The page with its own translator: starts the page, and checks once that this browser computes as Python does. */

import "../../../serve/web/page.js";
import { create } from "../../../serve/web/elements.js";
import { config } from "./config.js";
import { createInside } from "./inside.js";
import { ask, inspect, loaded } from "./service.js";

const AFTER = 1000; // milliseconds after loading
const MOST = 1e-3; // difference of scores

/** Compares the translations of a few sentences with Python's, while the page is idle. */
async function check() {
  const different = [];
  for (const { signature, sentence, score, ...expected } of config.check) {
    const { sourceTokens, hypotheses } = await ask("translate", signature, sentence);
    const [{ text, tokens, score: received }] = hypotheses;
    const isEqual = JSON.stringify({ sourceTokens, tokens, text }) === JSON.stringify(expected);
    if (!isEqual || Math.abs(score - received) > MOST) different.push({ sentence, expected, sourceTokens, hypotheses });
  }
  const [count, all] = [different.length, config.check.length];
  document.getElementById("check").textContent =
    `Self-check: ${all - count} of ${all} translations are those that Python computed.`;
  if (count === 0) return;
  console.error("self-check:", ...different);
  const title = create("strong", {}, "This browser computes wrong translations");
  const advice = ` ${count} of ${all} example translations differ. Open the file in another browser.`;
  document.querySelector("main").prepend(create("p", { class: "note", role: "alert" }, title, advice));
}

const [{ source_language: sourceLanguage, target_language: targetLanguage }] = config.models;
createInside(inspect, sourceLanguage, targetLanguage);
const state = document.getElementById("model"); // the page shows the name here when the translator is ready
state.textContent = "Loading …";
loaded.then(
  () => setTimeout(check, AFTER),
  () => (state.textContent = ""), // the page shows why the translator does not start
);
