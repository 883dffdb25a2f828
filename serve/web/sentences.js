/**
 * A translation above its source. Pointing at a word, tapping it or moving to it shows its attention in both sentences.
 *
 * Each sentence is a listbox of words, one of which can be reached by Tab. Left, Right, Home and End move along it in
 * the direction of writing. Up and Down move to the word with the largest weight in the other sentence. Escape leaves.
 */

import { create, movedBy, NOTABLE, percent, quoted } from "./elements.js";
import { segments } from "./words.js";

const MOST_SAID = 4;
const HINT = "Point at a word, tap it, or use the arrow keys.";

/**
 * Takes the listboxes { source, target }, the paragraph that describes the selected word, and the action of Escape.
 * Returns a function that shows a result of `alignWords` and the texts of source and target.
 */
export function createSentences(boxes, attended, leave) {
  let aligned;
  let elements; // by side and word; the end of the sentence has no element
  let places = new Map(); // side and word of each element

  /** Returns the other sentence's words by their weight, largest first: weight, word, and element if it has one. */
  function ranked({ side, index }) {
    const other = side === "source" ? "target" : "source";
    const weights = side === "target" ? aligned.weights[index] : aligned.weights.map((row) => row[index]);
    const [words, shown] = [aligned[other], elements[other]];
    const found = weights.map((weight, n) => ({ weight, word: words[n], element: shown[n] }));
    return found.sort((a, b) => b.weight - a.weight);
  }

  const notable = (place) => ranked(place).filter(({ weight }) => weight >= NOTABLE);

  function mark(element) {
    for (const each of places.keys()) {
      each.classList.remove("chosen", "attended");
      each.style.removeProperty("--weight");
    }
    const place = places.get(element);
    attended.replaceChildren(...(place ? inWords(place) : [HINT]));
    if (!place) return;
    element.classList.add("chosen");
    for (const { element, weight } of notable(place)) {
      element?.classList.add("attended");
      element?.style.setProperty("--weight", weight.toFixed(3));
    }
  }

  /** Returns the parts of “still” attended to “Todavía” 71 %, “en” 12 %. Elements isolate each word's direction. */
  function inWords(place) {
    const parts = [quoted(aligned[place.side][place.index])];
    parts.push(place.side === "target" ? " attended to " : " was attended to by ");
    const said = notable(place).slice(0, MOST_SAID);
    for (const [n, { word, weight }] of said.entries()) {
      parts.push(n ? ", " : "", word === "" ? "the sentence’s end" : quoted(word), ` ${percent(weight)}`);
    }
    return said.length ? parts : [...parts, "no word in particular"];
  }

  function move(event) {
    const place = places.get(event.target);
    if (!place || event.altKey || event.ctrlKey || event.metaKey) return;
    const { side } = place;
    const words = elements[side].filter(Boolean);
    const next = movedBy(event.key, boxes[side], words.indexOf(event.target), words.length);
    const isUp = event.key === "ArrowUp";
    if (next === undefined && !isUp && event.key !== "ArrowDown" && event.key !== "Escape") return;
    event.preventDefault();
    if (event.key === "Escape") leave();
    else if (next !== undefined) words[next]?.focus();
    else if (isUp === (side === "source")) ranked(place).find(({ element }) => element)?.element.focus();
  }

  /** Lets Tab reach one word of a listbox. */
  function select(box, element) {
    for (const each of box.querySelectorAll(".word")) {
      each.tabIndex = each === element ? 0 : -1;
      each.ariaSelected = String(each === element && element === document.activeElement);
    }
  }

  for (const box of Object.values(boxes)) {
    box.addEventListener("pointerover", ({ target }) => {
      const word = target.closest(".word");
      if (word) mark(word); // between two words, the last one stays selected
    });
    box.addEventListener("pointerleave", () => mark(document.activeElement));
    box.addEventListener("keydown", move);
    box.addEventListener("click", ({ target }) => target.closest(".word")?.focus()); // some taps do not set the focus
    box.addEventListener("focusin", ({ target }) => {
      select(box, target);
      mark(target);
    });
    box.addEventListener("focusout", ({ target }) => {
      target.ariaSelected = "false";
      mark(null);
    });
  }

  function fill(side, text) {
    const nodes = segments(text, aligned[side]).map(({ text: written, word: index }) => {
      if (index === null) return rest(written);
      const element = create("span", { class: "word", role: "option" }, written);
      elements[side][index] = element;
      places.set(element, { side, index });
      return element;
    });
    boxes[side].replaceChildren(...nodes);
    select(boxes[side], elements[side].find(Boolean));
  }

  return (alignment, sourceText, targetText) => {
    [aligned, elements, places] = [alignment, { source: [], target: [] }, new Map()];
    fill("source", sourceText);
    fill("target", targetText);
    for (const [element, place] of places) {
      element.setAttribute("aria-description", inWords(place).map((part) => part.textContent ?? part).join(""));
    }
    mark(null);
  };
}

/** Returns a node for white space and invisible characters between words, or for text that the model did not read. */
function rest(text) {
  const isInvisible = text.replace(/[\p{Cc}\p{Cf}\p{DI}]/gu, "").trim() === "";
  return isInvisible ? document.createTextNode(text) : create("span", { class: "unread" }, text);
}
