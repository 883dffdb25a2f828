/** The page with its own translator: starts the page, and checks once that this browser computes as Python does. */

import "../../../serve/web/page.js";
import { config } from "./config.js";
import { createInside } from "./inside.js";
import { ask, loaded } from "./service.js";

const AFTER = 1000; // milliseconds after loading

const [{ source_language: sourceLanguage, target_language: targetLanguage }] = config.models;
createInside({
  main: document.querySelector("main"),
  field: document.getElementById("sentence"),
  inspect: (sentence, options) => ask("inspect", sentence, options),
  sourceLanguage,
  targetLanguage,
});

/** Compares the translations of a few sentences with those in the file, while the page is idle. */
async function check() {
  let count = 0;
  const different = [];
  for (let found; (found = await ask("check", count)) !== null; count++) {
    if (!found.isEqual) different.push(found);
  }
  document.getElementById("check").textContent =
    `Self-check: ${count - different.length} of ${count} translations are those that Python computed.`;
  if (different.length === 0) return;
  console.error("self-check:", ...different);
  const note = Object.assign(document.createElement("p"), { className: "note", role: "alert" });
  const title = Object.assign(document.createElement("strong"), { textContent: "This browser computes wrong translations" });
  note.append(title, ` ${different.length} of ${count} example translations differ. Open the file in another browser.`);
  document.querySelector("main").prepend(note);
}

const state = document.getElementById("model"); // the page shows the name here when the translator is ready
state.textContent = "Loading …";
loaded.then(
  () => setTimeout(check, AFTER),
  () => (state.textContent = ""), // the page shows why the translator does not start
);
