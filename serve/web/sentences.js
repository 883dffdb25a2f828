/**
 * A translation above its source. Pointing at a word, tapping it or moving to it with the arrow keys shows its
 * attention in both sentences.
 *
 * Each sentence is a listbox of words, one of which can be reached by Tab. Left, Right, Home and End move along it in
 * the direction of writing. Up and Down move to the word with the largest weight in the other sentence. Escape leaves.
 */

import { segments } from "./words.js";

const NOTABLE = 0.05;
const MOST_SAID = 4;
const HINT = "Point at a word, tap it, or use the arrow keys.";

/**
 * @param {{source: HTMLElement, target: HTMLElement, attended: HTMLElement}} elements the two listboxes, and the
 *     paragraph that describes the selected word
 * @param {() => void} leave action of Escape
 * @returns {(aligned, sourceText: string, targetText: string) => void} function that shows a result of `alignWords`
 */
export function createSentences({ source, target, attended }, leave) {
  let aligned = { source: [], target: [], weights: [] };
  let elements = { source: [], target: [] }; // by word; the end of the sentence has no element
  const boxes = { source, target };

  const other = (side) => (side === "source" ? "target" : "source");
  const weightsOf = (side, index) =>
    side === "target" ? aligned.weights[index] : aligned.weights.map((row) => row[index]);
  const placeOf = (element) => {
    const word = element?.closest?.(".word");
    return word ? { side: boxes.source.contains(word) ? "source" : "target", index: Number(word.dataset.word) } : null;
  };

  function mark(place) {
    for (const element of [...elements.source, ...elements.target]) {
      element?.classList.remove("chosen", "attended");
      element?.style.removeProperty("--weight");
    }
    if (place === null) {
      attended.textContent = HINT;
      return;
    }
    const { side, index } = place;
    elements[side][index].classList.add("chosen");
    for (const { weight, position } of notable(weightsOf(side, index))) {
      const element = elements[other(side)][position];
      element?.classList.add("attended");
      element?.style.setProperty("--weight", weight.toFixed(3));
    }
    attended.replaceChildren(...inWords(side, index));
  }

  /** Returns a text such as: “still” attended to “Todavía” 71 %, “en” 12 %. Elements isolate each word's direction. */
  function inWords(side, index) {
    const parts = [quoted(aligned[side][index]), side === "target" ? " attended to " : " was attended to by "];
    const said = notable(weightsOf(side, index)).slice(0, MOST_SAID);
    said.forEach(({ weight, position }, n) => {
      const word = aligned[other(side)][position];
      parts.push(n ? ", " : "", word === "" ? "the sentence’s end" : quoted(word), ` ${percent(weight)}`);
    });
    return said.length ? parts : [...parts, "no word in particular"];
  }

  function markFocused() {
    mark(placeOf(document.activeElement));
  }

  function move(event) {
    const place = placeOf(event.target);
    if (place === null || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "Escape") {
      event.preventDefault();
      leave();
      return;
    }
    const next = neighbour(place, event.key);
    if (next === undefined) return;
    event.preventDefault();
    next?.focus();
  }

  /** Returns the element that a key moves to, null at the edge, undefined for other keys. */
  function neighbour({ side, index }, key) {
    const words = elements[side].filter(Boolean);
    const forward = getComputedStyle(boxes[side]).direction === "rtl" ? "ArrowLeft" : "ArrowRight";
    const at = words.indexOf(elements[side][index]);
    if (key === "ArrowLeft" || key === "ArrowRight") return words[at + (key === forward ? 1 : -1)] ?? null;
    if (key === "Home") return words[0];
    if (key === "End") return words.at(-1);
    const leads = (key === "ArrowDown" && side === "target") || (key === "ArrowUp" && side === "source");
    if (!leads) return key === "ArrowUp" || key === "ArrowDown" ? null : undefined;
    const reached = ranked(weightsOf(side, index)).find(({ position }) => elements[other(side)][position]);
    return reached ? elements[other(side)][reached.position] : null;
  }

  for (const box of [source, target]) {
    box.addEventListener("pointerover", (event) => {
      const place = placeOf(event.target);
      if (place) mark(place); // between two words, the last one stays selected
    });
    box.addEventListener("pointerleave", markFocused);
    box.addEventListener("keydown", move);
    box.addEventListener("click", (event) => event.target.closest(".word")?.focus()); // some taps do not set the focus
    box.addEventListener("focusin", (event) => {
      const place = placeOf(event.target);
      for (const element of box.querySelectorAll(".word")) {
        element.tabIndex = element === event.target ? 0 : -1;
        element.ariaSelected = String(element === event.target);
      }
      mark(place);
    });
    box.addEventListener("focusout", (event) => {
      event.target.ariaSelected = "false";
      mark(null);
    });
  }

  function fill(side, text) {
    elements[side] = [];
    const nodes = segments(text, aligned[side]).map(({ text: written, word }) => {
      if (word === null) return rest(written);
      const element = document.createElement("span");
      Object.assign(element, { className: "word", role: "option", ariaSelected: "false", textContent: written });
      element.dataset.word = word;
      element.tabIndex = elements[side].some(Boolean) ? -1 : 0;
      elements[side][word] = element;
      return element;
    });
    boxes[side].replaceChildren(...nodes);
    elements[side].forEach((element, index) => {
      element?.setAttribute("aria-description", inWords(side, index).map((part) => part.textContent ?? part).join(""));
    });
  }

  return (alignment, sourceText, targetText) => {
    aligned = alignment;
    fill("source", sourceText);
    fill("target", targetText);
    mark(null);
  };
}

/** Returns a weight in percent: 71 %. */
export function percent(weight) {
  return `${Math.round(100 * weight)} %`;
}

/** Returns weights with their positions, largest first. */
function ranked(weights) {
  return weights.map((weight, position) => ({ weight, position })).sort((a, b) => b.weight - a.weight);
}

/** Returns the weights of at least NOTABLE. */
function notable(weights) {
  return ranked(weights).filter(({ weight }) => weight >= NOTABLE);
}

/** Returns an element with the word in English quotation marks, whatever its direction. */
function quoted(word) {
  const element = document.createElement("span");
  const isolated = Object.assign(document.createElement("bdi"), { textContent: word });
  element.className = "quoted";
  element.append("“", isolated, "”");
  return element;
}

/** Returns a node for white space and invisible characters between words, or for text that the model did not read. */
function rest(text) {
  if (text.replace(/[\p{Cc}\p{Cf}\p{DI}]/gu, "").trim() === "") return document.createTextNode(text);
  const element = document.createElement("span");
  element.className = "unread";
  element.textContent = text;
  return element;
}
