/** Pictures of numbers: strips of vectors, bars, and ribbons between words. */

import { create, setAttributes } from "../../../serve/web/elements.js";
import { equation } from "./equations.js";

/** Colours [red, green, blue] of positive and negative values, as in inside.css, and of gates. */
const [POSITIVE, NEGATIVE, GATE] = [[201, 92, 30], [38, 110, 176], [33, 145, 140]];
const FEW = 200; // units that are drawn as cells with sharp edges

/**
 * Draws vectors as strips, a cell for each unit. Pointing at a unit, or moving the slider, replaces the summary by the
 * equation with the unit's numbers, which `describe` returns. Each row is { symbol, values [U], isGate, note }: gates
 * lie in [0, 1], other values are coloured by sign.
 */
export function strips(symbol, rows, summary, describe) {
  const { length } = rows[0].values;
  const largest = (values) => values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  const scale = Math.max(1e-9, ...rows.filter(({ isGate }) => !isGate).map(({ values }) => largest(values)));
  const range = { type: "range", min: 1, max: length, value: 1, "data-key": symbol };
  const slider = create("input", { ...range, "aria-label": `Units of ${equation(symbol).textContent}` });
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
  const drawn = rows.map(({ values, isGate }) => drawStrip(values, isGate ? 1 : scale, isGate ? GATE : POSITIVE));
  const cells = create("div", { class: "cells", dir: "ltr" }, ...drawn, mark, slider);
  return create("div", { class: "strips" }, create("div", { class: "names" }, ...names), cells, readout);
}

/** Draws one strip of values up to `scale`; `colour` is that of positive ones. */
function drawStrip(values, scale, colour) {
  const canvas = create("canvas", { width: values.length, height: 1, class: values.length < FEW ? "few" : null });
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const image = context.createImageData(values.length, 1);
  values.forEach((value, u) => {
    image.data.set([...(value < 0 ? NEGATIVE : colour), (255 * Math.abs(value)) / scale], 4 * u);
  });
  context.putImageData(image, 0, 0);
  return canvas;
}

/** Returns a bar from `from` to `to`, both in [0, 1] of its box, with a mark at `before` unless it is null. */
export function bar(from, to, before = null) {
  const filled = create("span", { class: to < from ? "negative" : "positive" });
  filled.style.insetInlineStart = `${100 * Math.min(from, to)}%`;
  filled.style.inlineSize = `${100 * Math.abs(to - from)}%`;
  const mark = create("span", { class: "before" });
  mark.style.insetInlineStart = `${100 * before}%`;
  return create("span", { class: "bar" }, filled, ...(before === null ? [] : [mark]));
}

/**
 * Draws ribbons from source words to target words in an SVG element that covers both. Widths and opacities of the
 * ribbons of the step `shown` are the weights; the other steps have thin lines to the most attended words. `attended`
 * has the source words { index, weight } of each target word, most attended first.
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
    const d = `M${x1},${y1}C${x1},${(y1 + y2) / 2} ${x2},${(y1 + y2) / 2} ${x2},${y2}`;
    const shape = { class: "shown", "stroke-width": 1 + 11 * weight, "stroke-opacity": 0.4 + 0.6 * weight };
    setAttributes(path, { d, ...(step === shown ? shape : { "stroke-width": 1.5 }) });
    return path;
  };
  const over = (step, least) => attended[step].filter(({ weight }) => weight >= least).map((each) => draw(step, each));
  const others = [...attended.keys()].filter((step) => step !== shown);
  svg.replaceChildren(...others.flatMap((step) => over(step, 0.4)), ...over(shown, 0.01).reverse());
}
