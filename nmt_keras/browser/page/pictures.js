/** Pictures of numbers: strips of vectors, bars, and ribbons between words. */

import { create, equation } from "./equations.js";

/** Colours of matplotlib's viridis at 0, 1/8, ..., 1, as in the heatmaps. */
const VIRIDIS = ["440154", "472d7b", "3b528b", "2c728e", "21918c", "28ae80", "5ec962", "addc30", "fde725"].map(rgb);

const [POSITIVE, NEGATIVE] = ["c95c1e", "266eb0"].map(rgb); // as in the style
const GATE = VIRIDIS[4];
const FEW = 200; // units that are drawn as cells with sharp edges

/** Returns [red, green, blue]. */
function rgb(hex) {
  return [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

/** Returns the colour of a weight in [0, 1] as [red, green, blue]. */
function viridis(weight) {
  const at = Math.min(Math.max(weight, 0), 1) * (VIRIDIS.length - 1);
  const low = VIRIDIS[Math.floor(at)];
  const high = VIRIDIS[Math.ceil(at)];
  return low.map((value, n) => Math.round(value + (at % 1) * (high[n] - value)));
}

/** Sets the colours of a weight: of two ends of viridis, the one that contrasts with the page is the larger weight. */
export function tint(element, weight) {
  element.style.setProperty("--on-light", `rgb(${viridis(0.85 * (1 - weight))})`);
  element.style.setProperty("--on-dark", `rgb(${viridis(0.25 + 0.75 * weight)})`);
  return element;
}

/** Formats a number with two decimals and a minus sign. */
export const decimal = (value) => (Math.abs(value) < 0.005 ? "0.00" : value.toFixed(2).replace("-", "−"));

/** Formats a share in percent: with one decimal below 10 %, so that small shares differ. */
export const share = (weight) => `${(100 * weight).toFixed(weight < 0.0995 ? 1 : 0)}\u00a0%`;

/**
 * Draws vectors as strips, one cell for each unit, above each other. Pointing at a unit, or moving the slider, shows
 * its numbers.
 *
 * @param {{symbol: string, values: Float32Array, isGate?: boolean, note?: string}[]} rows of one width; gates lie in
 *     [0, 1], other values are coloured by sign
 * @param {{symbol: string, summary: Node, describe: (unit: number) => string}} options `summary` is shown while no unit
 *     is; `describe` returns an equation with the numbers of a unit
 * @returns {HTMLElement}
 */
export function strips(rows, { symbol, summary, describe }) {
  const { length } = rows[0].values;
  const scale = Math.max(1e-9, ...rows.filter((row) => !row.isGate).map(({ values }) => largest(values)));
  const name = `Units of ${equation(symbol).textContent}`;
  const range = { type: "range", min: 1, max: length, value: 1 };
  const slider = create("input", { ...range, "data-key": symbol, "aria-label": name });
  const mark = create("span", { class: "unit", hidden: "" });
  const readout = create("p", { class: "readout" }, summary);
  const point = (unit) => {
    slider.value = unit + 1;
    slider.setAttribute("aria-valuetext", `Unit ${unit + 1}: ${describe(unit)}`);
    mark.hidden = false;
    mark.style.insetInlineStart = `${(100 * (unit + 0.5)) / length}%`;
    readout.replaceChildren(`Unit ${unit + 1}: `, equation(describe(unit)));
  };
  const leave = () => {
    if (slider.matches(":focus-visible")) return;
    mark.hidden = true;
    readout.replaceChildren(summary);
  };
  slider.addEventListener("input", () => point(slider.value - 1));
  slider.addEventListener("focus", () => slider.matches(":focus-visible") && point(slider.value - 1));
  slider.addEventListener("blur", leave);
  slider.addEventListener("pointermove", (event) => {
    const { left, width } = slider.getBoundingClientRect();
    point(Math.min(length - 1, Math.max(0, Math.floor(((event.clientX - left) / width) * length))));
  });
  slider.addEventListener("pointerleave", ({ pointerType }) => pointerType === "mouse" && leave());
  const names = rows.map(({ symbol, note = "" }) => create("span", {}, equation(symbol), " ", create("bdi", {}, note)));
  const drawn = rows.map(({ values, isGate }) => drawStrip(values, isGate ? null : scale));
  return create(
    "div",
    { class: "strips" },
    create("div", { class: "names" }, ...names),
    create("div", { class: "cells", dir: "ltr" }, ...drawn, mark, slider),
    readout,
  );
}

function largest(values) {
  return values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
}

/** Draws one strip: signed values up to `scale`, or gates if `scale` is null. */
function drawStrip(values, scale) {
  const canvas = create("canvas", { width: values.length, height: 1, class: values.length < FEW ? "few" : null });
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const image = context.createImageData(values.length, 1);
  values.forEach((value, u) => {
    const colour = scale === null ? GATE : value < 0 ? NEGATIVE : POSITIVE;
    image.data.set([...colour, (255 * Math.abs(value)) / (scale ?? 1)], 4 * u);
  });
  context.putImageData(image, 0, 0);
  return canvas;
}

/**
 * Returns a bar from `from` to `to`, both in [0, 1] of its box.
 *
 * @param {string} className
 * @param {number | null} [before] where the bar ended before the learner's change; null for no mark
 */
export function bar(from, to, className, before = null) {
  const filled = create("span", { class: `filled ${className}` });
  filled.style.insetInlineStart = `${100 * Math.min(from, to)}%`;
  filled.style.inlineSize = `${100 * Math.abs(to - from)}%`;
  const box = create("span", { class: "bar" }, filled);
  if (before !== null) {
    const mark = create("span", { class: "before" });
    mark.style.insetInlineStart = `${100 * before}%`;
    box.append(mark);
  }
  return box;
}

/**
 * Draws ribbons from source words to the words of a translation. Widths and colours of one step's ribbons are the
 * weights; the other steps have thin lines to the most attended words.
 *
 * @param {SVGElement} svg covers the words
 * @param {HTMLCollection} sources
 * @param {HTMLCollection} targets
 * @param {{index: number, weight: number}[][]} attended source words of each target word, most attended first
 * @param {number} shown
 */
export function drawRibbons(svg, sources, targets, attended, shown) {
  const box = svg.getBoundingClientRect();
  const places = (elements) => Array.from(elements, (element) => element.getBoundingClientRect());
  const [above, below] = [places(sources), places(targets)]; // all, because a change between them costs a new layout
  const middle = ({ left, right }) => (left + right) / 2 - box.left;
  const draw = (step, { index, weight }) => {
    const [x1, x2] = [middle(above[index]), middle(below[step])];
    const [y1, y2] = [above[index].bottom - box.top, below[step].top - box.top];
    const path = document.createElementNS(svg.namespaceURI, "path");
    path.setAttribute("d", `M${x1},${y1}C${x1},${(y1 + y2) / 2} ${x2},${(y1 + y2) / 2} ${x2},${y2}`);
    path.setAttribute("class", step === shown ? "shown" : "");
    path.setAttribute("stroke-width", step === shown ? (1 + 11 * weight).toFixed(1) : "1.5");
    return tint(path, weight);
  };
  const ribbons = (step, least) =>
    attended[step].filter(({ weight }) => weight >= least).map((each) => draw(step, each));
  const others = Array.from(attended.keys()).filter((step) => step !== shown);
  svg.replaceChildren(...others.flatMap((step) => ribbons(step, 0.4)), ...ribbons(shown, 0.01).reverse());
}
