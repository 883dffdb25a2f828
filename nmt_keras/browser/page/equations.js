/** The decoder's steps and equations, in the papers' symbols. */

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

/** Returns an element with attributes and children. */
export function create(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/**
 * Returns an equation as HTML: letters in italics, functions upright, subscripts after "_", a prime for "'", a tilde
 * for "~", the product of elements for "*", and fractions for "[a | b]".
 *
 * @param {string} text such as "s_i = (1 - z_i) * s_{i-1} + z_i * s~_i"
 * @returns {DocumentFragment}
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

/** Returns the equations of a cell: its gates, its proposal and its state. */
function cellEquations(kind, { prime = "", reads, state }) {
  const sum = (gate) => reads.map(([matrix, vector]) => `${matrix}${prime}${gate} ${vector}`).join(" + ");
  const [z, r, proposal, next] = ["z", "r", "s~", "s"].map((letter) => `${letter}${prime}_i`);
  const U = `U${prime}`;
  const b = `b${prime}`;
  return {
    gru: [
      `${z} = σ(${sum("_z")} + ${U}_z ${state} + ${b}_z)`,
      `${r} = σ(${sum("_r")} + ${U}_r ${state} + ${b}_r)`,
      `${proposal} = tanh(${sum("")} + ${U} (${r} * ${state}) + ${b})`,
      `${next} = (1 - ${z}) * ${state} + ${z} * ${proposal}`,
    ],
    "gru-reset-after": [
      `${z} = σ(${sum("_z")} + ${U}_z ${state} + ${b}_z)`,
      `${r} = σ(${sum("_r")} + ${U}_r ${state} + ${b}_r)`,
      `${proposal} = tanh(${sum("")} + ${r} * (${U} ${state} + d${prime}) + ${b})`,
      `${next} = ${z} * ${state} + (1 - ${z}) * ${proposal}`,
    ],
    "gru-layer-norm": [
      `${z} = σ(LN(${sum("_z")} + ${b}_z) + LN(${U}_z ${state}))`,
      `${r} = σ(LN(${sum("_r")} + ${b}_r) + LN(${U}_r ${state}))`,
      `${proposal} = tanh(LN(${sum("")} + ${b}) + ${r} * LN(${U} ${state}))`,
      `${next} = (1 - ${z}) * ${state} + ${z} * ${proposal}`,
    ],
  }[kind];
}

/**
 * @typedef {object} Stage one stage of a decoder's step
 * @property {string} symbol what it computes
 * @property {string} title
 * @property {string[]} equations
 * @property {"word" | "cell" | "attention" | "context" | "output"} kind
 * @property {number} [cell] position in `Values.cells`
 * @property {string[]} [rows] symbols of a cell's rows: state, z, r, proposal, next state
 */

/**
 * Returns the stages of a decoder's step in the order of their computation.
 *
 * @param {{order: string, cell: string, layers: number, output_state: string}} config the decoder's part of a recipe
 * @returns {Stage[]}
 */
export function stagesOf({ order, cell, layers, output_state: read }) {
  const word = ["W", "e(y_{i-1})"];
  const context = ["C", "c_i"];
  const ofCell = (number, title, parts) => {
    const prime = parts.prime ?? "";
    const symbol = `s${prime}_i`;
    const rows = [parts.state, ...["z", "r", "s~", "s"].map((letter) => `${letter}${prime}_i`)];
    return { symbol, title, kind: "cell", cell: number, rows, equations: cellEquations(cell, parts) };
  };
  const isConditional = order === "conditional";
  const query = isConditional ? "s'_i" : "s_{i-1}";
  const reading = isConditional
    ? ofCell(1, "The context changes the state", { reads: [context], state: "s'_i" })
    : ofCell(0, "Word and context change the state", { reads: [word, context], state: "s_{i-1}" });
  const higher = Array.from({ length: layers - 1 }, (_, n) =>
    ofCell(n + 1 + isConditional, `Layer ${n + 2}`, { reads: [["W", "s_i"]], state: "s_{i-1}" }),
  );
  return [
    { symbol: "e(y_{i-1})", title: "The word before", kind: "word", equations: [] },
    ...(isConditional
      ? [ofCell(0, "The word changes the state", { prime: "'", reads: [word], state: "s_{i-1}" })]
      : []),
    {
      symbol: "α_{ij}",
      title: "Attention",
      kind: "attention",
      equations: [`e_{ij} = v_a · tanh(W_a ${query} + U_a h_j)`, "α_{ij} = [exp(e_{ij}) | Σ_k exp(e_{ik})]"],
    },
    { symbol: "c_i", title: "The context", kind: "context", equations: ["c_i = Σ_j α_{ij} h_j"] },
    reading,
    ...higher,
    {
      symbol: "y_i",
      title: "The next word",
      kind: "output",
      equations: [
        `t_i = maxout(U_o ${read === "previous" ? "s_{i-1}" : "s_i"} + V_o e(y_{i-1}) + C_o c_i + b_m)`,
        "p(y_i | y_{<i}, x) = softmax(W_o t_i + b_o)",
      ],
    },
  ];
}
