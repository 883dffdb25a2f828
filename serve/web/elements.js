/** Elements of the page, and formats of their numbers. */

import { direction } from "./words.js";

export const NOTABLE = 0.05; // least attention that is told

/** Sets the attributes of an element, except those that are null. */
export function setAttributes(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) if (value !== null) element.setAttribute(name, value);
}

/** Returns an element with attributes and children. */
export function create(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  setAttributes(element, attributes);
  element.append(...children);
  return element;
}

export function createButton(attributes, action, ...children) {
  const button = create("button", { type: "button", ...attributes }, ...children);
  button.addEventListener("click", action);
  return button;
}

/** Returns the attributes of a text in a language; `lang` is its code, or "" if it is unknown. */
export const textIn = (lang) => ({ lang, dir: direction(lang), translate: "no" });

/** Returns a word in English quotation marks, whatever its direction. */
export const quoted = (word) => create("span", { class: "quoted" }, "“", create("bdi", {}, word), "”");

/** Returns the position that a key moves to in a listbox, in the direction of writing; undefined for other keys. */
export function movedBy(key, box, at, count) {
  const forward = getComputedStyle(box).direction === "rtl" ? "ArrowLeft" : "ArrowRight";
  return { ArrowLeft: at - 1, ArrowRight: at - 1, [forward]: at + 1, Home: 0, End: count - 1 }[key];
}

/** Formats a number with two decimals and a minus sign, and null, TensorFlow Serving's NaN, as a dash. */
export const decimal = (value) => value?.toFixed(2).replace(/^-0\.00$/, "0.00").replace("-", "−") ?? "–";

export const percent = (weight, decimals = 0) => `${(100 * weight).toFixed(decimals)}\u00a0%`;
