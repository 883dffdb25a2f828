/** Equations as HTML, in the papers' symbols. */

import { create } from "../../../serve/web/elements.js";

const TOKEN = new RegExp(
  [
    String.raw`\[(?<over>[^\]|]*) \| (?<under>[^\]]*)\]`,
    String.raw`_(?:\{(?<group>[^}]*)\}|(?<short>\w))`,
    "(?<name>tanh|exp|softmax|maxout|LN)",
    "(?<letter>[A-Za-zα])(?<tilde>~?)",
  ].join("|"),
  "g",
);

const SIGNS = { "-": "−", "'": "′", "*": "⊙", " ": "\u00a0" }; // lines break before "+" only

/**
 * Returns an equation such as "s_i = (1 - z_i) * s_{i-1} + z_i * s~_i" as HTML: letters in italics, functions upright,
 * a prime for "'", a tilde for "~", the product of elements for "*", and fractions for "[a | b]".
 */
export function equation(text) {
  const signs = (between) => between.replace(/[-'* ]/g, (sign) => SIGNS[sign]).replaceAll("\u00a0+", " +");
  const written = new DocumentFragment();
  let end = 0;
  for (const found of text.matchAll(TOKEN)) {
    const { over, under, group, short, name, letter, tilde } = found.groups;
    written.append(signs(text.slice(end, found.index)));
    end = found.index + found[0].length;
    const parts = over ? [over, under].map((part) => create("span", {}, equation(part))) : [];
    if (over) written.append(create("span", { class: "fraction" }, ...parts));
    else if (letter) written.append(create("var", {}, letter + (tilde && "\u0303")));
    else written.append(name ?? create("sub", {}, equation(group ?? short)));
  }
  written.append(signs(text.slice(end)));
  return written;
}

/**
 * Returns the equations of a kind of cell: its gates, its proposal and its state. `reads` has its matrices with what they
 * multiply, and `state` is the state before. The word cell of a conditional decoder has a prime.
 */
export function cellEquations(kind, prime, reads, state) {
  const [z, r, proposal, next] = ["z", "r", "s~", "s"].map((letter) => `${letter}${prime}_i`);
  const sum = (gate) => reads.map(([matrix, vector]) => `${matrix}${prime}${gate} ${vector}`).join(" + ");
  const bias = (gate) => `b${prime}${gate}`;
  const product = (gate) => `U${prime}${gate} ${state}`;
  const gate = (name) =>
    kind === "gru-layer-norm"
      ? `σ(LN(${sum(name)} + ${bias(name)}) + LN(${product(name)}))`
      : `σ(${sum(name)} + ${product(name)} + ${bias(name)})`;
  const inner = {
    gru: `${sum("")} + U${prime} (${r} * ${state}) + ${bias("")}`,
    "gru-reset-after": `${sum("")} + ${r} * (${product("")} + d${prime}) + ${bias("")}`,
    "gru-layer-norm": `LN(${sum("")} + ${bias("")}) + ${r} * LN(${product("")})`,
  }[kind];
  const [kept, taken] = kind === "gru-reset-after" ? [z, `(1 - ${z})`] : [`(1 - ${z})`, z];
  return [
    `${z} = ${gate("_z")}`,
    `${r} = ${gate("_r")}`,
    `${proposal} = tanh(${inner})`,
    `${next} = ${kept} * ${state} + ${taken} * ${proposal}`,
  ];
}
