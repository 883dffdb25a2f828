/**
 * Weight matrices in the memory of the WebAssembly program, and sums of vectors.
 *
 * "Rows" are Q vectors of one width, one after another in a Float32Array: one for each hypothesis or source position.
 */

import { memory, times } from "./simd.js";

const PAGE = 1 << 16;
let floats = new Float32Array(memory.buffer);
let used = 4; // no address is 0
const [places, sizes] = [[], [0, 0, 0]]; // of scratch space for the vectors, their products, and four rows of float32

/** Reserves space for `size` numbers, a multiple of four, and returns its address in numbers. */
function reserve(size) {
  const begin = used;
  used += size;
  const missing = Math.ceil((4 * used) / PAGE) - memory.buffer.byteLength / PAGE;
  if (missing > 0) {
    memory.grow(missing);
    floats = new Float32Array(memory.buffer);
  }
  return begin;
}

/** Returns the address of scratch space. Its size doubles, because space that is too small is not used again. */
function scratch(size, n) {
  if (size > sizes[n]) [places[n], sizes[n]] = [reserve(2 * size), 2 * size];
  return places[n];
}

const multiple = (n, of) => Math.ceil(n / of) * of;

/** A weight matrix, stored with one row for each output. */
export class Matrix {
  /** Copies float32 or int8 values of a shape. Int8 values have scales [outputs]. */
  constructor(values, [outputs, inputs], scales) {
    Object.assign(this, { outputs, inputs, kind: values.constructor });
    this.columns = multiple(inputs, 8);
    this.paddedRows = multiple(outputs, 4);
    this.address = 4 * reserve((this.columns * this.paddedRows * this.kind.BYTES_PER_ELEMENT) / 4);
    this.scales = scales ? 4 * reserve(this.paddedRows) : 0;
    if (scales) floats.set(scales, this.scales / 4);
    const stored = new this.kind(memory.buffer, this.address);
    for (let row = 0; row < outputs; row++) stored.set(rowsOf(values, inputs, row), row * this.columns);
  }

  /** Returns the rows of tokens: of an embedding, their vectors. */
  rows(ids) {
    const result = new Float32Array(ids.length * this.inputs);
    for (const [q, id] of ids.entries()) {
      const begin = this.address + id * this.columns * this.kind.BYTES_PER_ELEMENT;
      const scale = this.scales ? floats[this.scales / 4 + id] : 1;
      const values = new this.kind(memory.buffer, begin, this.inputs);
      for (let i = 0; i < this.inputs; i++) result[q * this.inputs + i] = values[i] * scale;
    }
    return result;
  }

  /** Returns W x + b, [Q, outputs], for rows x [Q, inputs] and a bias [outputs]. */
  times(x, bias = null) {
    const { inputs, outputs, columns, paddedRows } = this;
    const count = x.length / inputs;
    const [inX, inY, room] = [count * columns, count * paddedRows, 4 * columns].map(scratch);
    for (let q = 0; q < count; q++) {
      floats.set(rowsOf(x, inputs, q), inX + q * columns);
      floats.fill(0, inX + q * columns + inputs, inX + (q + 1) * columns);
    }
    times(this.address, 4 * inX, 4 * inY, paddedRows, 4 * columns, count, this.scales, 4 * room);
    const y = new Float32Array(count * outputs);
    for (let q = 0; q < count; q++) {
      y.set(floats.subarray(inY + q * paddedRows, inY + q * paddedRows + outputs), q * outputs);
    }
    return bias === null ? y : addTo(y, bias);
  }
}

/** Returns rows `begin` to `end - 1` of x, which has rows of `width` numbers, without a copy. */
export function rowsOf(x, width, begin, end = begin + 1) {
  return x.subarray(begin * width, end * width);
}

/** Adds x to y, or to each row of y if x is a vector, and returns y. */
export function addTo(y, x) {
  for (let i = 0; i < y.length; ) for (let j = 0; j < x.length; j++, i++) y[i] += x[j];
  return y;
}
