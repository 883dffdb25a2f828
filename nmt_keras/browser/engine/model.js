/** The model: an encoder and a decoder, built from a recipe and named weights. */

import { DECODERS } from "./decoder.js";
import { Encoder } from "./encoder.js";
import { BRIDGES } from "./layers/bridges.js";
import { CELLS } from "./layers/cells.js";
import { OUTPUT_LAYERS } from "./layers/output.js";

/** What the engine computes, by field of a recipe's model. */
const SUPPORTED = {
  "encoder.kind": ["recurrent"],
  "encoder.cell": Object.keys(CELLS),
  "attention.kind": ["additive", "concat"],
  "attention.span": ["global"],
  "decoder.order": Object.keys(DECODERS),
  "decoder.cell": Object.keys(CELLS),
  "decoder.initial_state": BRIDGES,
  "decoder.reads_words": [true],
  "decoder.shares_recurrence": [false],
  "decoder.output": Object.keys(OUTPUT_LAYERS),
};

/** Returns one line for each part of a recipe's model that the engine lacks, such as "decoder.cell: lstm". */
export function unsupported(config) {
  return Object.entries(SUPPORTED).flatMap(([field, choices]) => {
    const value = field.split(".").reduce((part, name) => part[name], config);
    return choices.includes(value) ? [] : [`${field}: ${value}`];
  });
}

export class Model {
  /**
   * @param {object} config the model of a recipe
   * @param {Weights} weights
   */
  constructor(config, weights) {
    const missing = unsupported(config);
    if (missing.length) throw new Error(`model: this page cannot compute ${missing.join(", ")}.`);
    this.config = config;
    this.encoder = new Encoder(weights.of("encoder"), config.encoder);
    /** @type {Decoder} */
    this.decoder = new DECODERS[config.decoder.order](weights.of("decoder"), config.decoder);
  }

  /**
   * Returns the memory of a sentence.
   *
   * @param {number[]} ids source tokens; the last is END
   * @param {Uint8Array | null} hidden 1 at tokens that get no attention
   */
  encode(ids, hidden = null) {
    return this.decoder.setupMemory(this.encoder.encode(ids), hidden);
  }
}
