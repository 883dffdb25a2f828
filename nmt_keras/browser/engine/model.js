/** The model: an encoder and a decoder, built from a recipe and named weights. */

import { DECODERS } from "./decoder.js";
import { Encoder } from "./encoder.js";

export class Model {
  /**
   * @param {object} config the model of a recipe, whose layers are supported (nmt_keras/browser/support.py)
   * @param {Weights} weights
   */
  constructor(config, weights) {
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
