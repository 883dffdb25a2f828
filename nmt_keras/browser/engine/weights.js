/**
 * Named weights in the safetensors format: eight bytes with the length of a JSON header, the header, the values.
 *
 * A matrix is stored with one row for each output, so that a product reads its rows from begin to end, and so that each
 * output has its own scale in the int8 form. An embedding is a matrix with one row for each token. `NAME.scales` [rows]
 * float32 are the scales of an int8 matrix: a value is its int8 times the scale of its row.
 */

import { Matrix } from "./matrix.js";

/** A set of named weights, or the part of it whose names begin with a prefix. */
export class Weights {
  #tensors;
  #prefix;

  /** @param {Map<string, {shape: number[], values: Float32Array | Int8Array, scales?: Float32Array}>} tensors */
  constructor(tensors, prefix = "") {
    this.#tensors = tensors;
    this.#prefix = prefix;
  }

  /** Returns the weights of a layer: those whose names begin with `layer/`. */
  of(layer) {
    return new Weights(this.#tensors, `${this.#prefix}${layer}/`);
  }

  /** Returns true if there is a weight called `name`. */
  has(name) {
    return this.#tensors.has(this.#prefix + name);
  }

  /** Returns a vector. */
  vector(name) {
    return this.#find(name).values;
  }

  /** Returns a matrix. */
  matrix(name) {
    const { shape, values, scales } = this.#find(name);
    return new Matrix(values, shape[0], shape[1], scales);
  }

  #find(name) {
    const found = this.#tensors.get(this.#prefix + name);
    if (found === undefined) throw new Error(`weights: expected ${this.#prefix}${name}, found none.`);
    return found;
  }
}

/**
 * Reads a safetensors file.
 *
 * @param {ArrayBuffer} buffer
 * @returns {Weights}
 */
export function readWeights(buffer) {
  const headerLength = Number(new DataView(buffer).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, headerLength)));
  delete header.__metadata__;
  const tensors = new Map();
  for (const [name, { dtype, shape, data_offsets: offsets }] of Object.entries(header)) {
    const begin = 8 + headerLength + offsets[0];
    const size = shape.reduce((product, length) => product * length, 1);
    tensors.set(name, { shape, values: READERS[dtype](buffer, begin, size) });
  }
  for (const [name, { values: scales }] of tensors) {
    if (!name.endsWith(".scales")) continue;
    const matrix = tensors.get(name.slice(0, -".scales".length));
    matrix.scales = scales;
    tensors.delete(name);
  }
  return new Weights(tensors);
}

const READERS = {
  F32: (buffer, begin, size) => new Float32Array(buffer, begin, size),
  F16: (buffer, begin, size) => fromHalf(new Uint16Array(buffer, begin, size)),
  I8: (buffer, begin, size) => new Int8Array(buffer, begin, size),
};

/** Returns float16 values as float32. Float16Array is too new for many browsers. */
function fromHalf(bits) {
  const table = halves();
  const result = new Float32Array(bits.length);
  for (let i = 0; i < bits.length; i++) result[i] = table[bits[i]];
  return result;
}

/** Returns the value of each of the 65,536 float16 numbers. */
function halves() {
  const table = new Float32Array(1 << 16);
  for (let bits = 0; bits < 1 << 15; bits++) {
    const exponent = bits >> 10;
    const fraction = (bits & 1023) / 1024;
    const finite = exponent ? 2 ** (exponent - 15) * (1 + fraction) : 2 ** -14 * fraction;
    table[bits] = exponent === 31 ? (fraction ? NaN : Infinity) : finite;
    table[bits + (1 << 15)] = -table[bits];
  }
  return table;
}
