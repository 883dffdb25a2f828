/**
 * Products of vectors with weight matrices, and sums of vectors.
 *
 * "Rows" are Q vectors of one width, one after another in a Float32Array: one for each hypothesis or source position.
 */

import { numbers, product, reserve } from "./simd.js";

const multiple = (n, of) => Math.ceil(n / of) * of;

/** A weight matrix, stored with one row for each output. */
export class Matrix {
  /**
   * @param {Float32Array | Int8Array} values [outputs, inputs], copied
   * @param {number} outputs
   * @param {number} inputs
   * @param {Float32Array | null} scales [outputs] of int8 values
   */
  constructor(values, outputs, inputs, scales = null) {
    this.outputs = outputs;
    this.inputs = inputs;
    this.columns = multiple(inputs, 8);
    this.paddedRows = multiple(outputs, 4);
    this.kind = scales === null ? Float32Array : Int8Array;
    const size = this.columns * this.paddedRows * this.kind.BYTES_PER_ELEMENT;
    this.address = 4 * reserve(size / 4);
    this.scales = scales === null ? 0 : 4 * reserve(this.paddedRows);
    if (scales !== null) numbers().set(scales, this.scales / 4);
    const stored = new this.kind(numbers().buffer, this.address);
    for (let row = 0; row < outputs; row++) stored.set(values.subarray(row * inputs, (row + 1) * inputs), row * this.columns);
  }

  /** Returns row `index`: of an embedding, the vector of a token. */
  row(index) {
    const begin = this.address + index * this.columns * this.kind.BYTES_PER_ELEMENT;
    const values = new this.kind(numbers().buffer, begin, this.inputs);
    return this.scales ? Float32Array.from(values, (value) => value * numbers()[this.scales / 4 + index]) : values;
  }

  /** Returns the rows of several tokens. */
  rows(indices) {
    const result = new Float32Array(indices.length * this.inputs);
    indices.forEach((index, q) => result.set(this.row(index), q * this.inputs));
    return result;
  }

  /**
   * Returns W x + b for each of Q rows x.
   *
   * @param {Float32Array} x [Q, inputs]
   * @param {Float32Array | null} bias [outputs]
   * @returns {Float32Array} [Q, outputs]
   */
  times(x, bias = null) {
    const y = product({ ...this, rows: this.paddedRows }, x);
    return bias === null ? y : addToRows(y, bias);
  }
}

/** Adds one vector to each row of y, and returns y. */
export function addToRows(y, vector) {
  for (let i = 0; i < y.length; ) for (let j = 0; j < vector.length; j++, i++) y[i] += vector[j];
  return y;
}

/** Adds x to y, of the same size, and returns y. */
export function addTo(y, x) {
  for (let i = 0; i < y.length; i++) y[i] += x[i];
  return y;
}

/** Returns the chosen rows of x, which has rows of `width` numbers. */
export function selectRows(x, width, chosen) {
  const result = new Float32Array(chosen.length * width);
  chosen.forEach((row, q) => result.set(x.subarray(row * width, (row + 1) * width), q * width));
  return result;
}
