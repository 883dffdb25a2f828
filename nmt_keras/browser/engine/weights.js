/**
 * Named weights in the safetensors format: eight bytes with the length of a JSON header, the header, the values. A
 * matrix has a row for each output, an embedding for each token. `NAME.scales` [rows] multiply the rows of int8 NAME.
 */

import { Matrix } from "./matrix.js";

const READERS = {
  F32: (buffer, begin, size) => new Float32Array(buffer, begin, size),
  F16: (buffer, begin, size) => fromHalf(new Uint16Array(buffer, begin, size)),
  I8: (buffer, begin, size) => new Int8Array(buffer, begin, size),
};

/** Returns the weights in a file as nested objects by the parts of their names: a Matrix each, or a Float32Array. */
export function readWeights(buffer) {
  const length = Number(new DataView(buffer).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
  const valuesOf = ({ dtype, shape, data_offsets: [begin] }) =>
    READERS[dtype](buffer, 8 + length + begin, shape.reduce((product, size) => product * size, 1));
  const weights = {};
  for (const [path, tensor] of Object.entries(header)) {
    if (path.endsWith(".scales")) continue;
    const parts = path.split("/");
    const name = parts.pop();
    const scales = header[`${path}.scales`];
    const values = valuesOf(tensor);
    const layer = parts.reduce((layer, part) => (layer[part] ??= {}), weights);
    layer[name] = tensor.shape.length === 2 ? new Matrix(values, tensor.shape, scales && valuesOf(scales)) : values;
  }
  return weights;
}

/** Returns finite float16 values as float32: their bits, with the exponent of float32. Float16Array is too new. */
function fromHalf(halves) {
  const result = new Float32Array(halves.length);
  const bits = new Uint32Array(result.buffer);
  for (let i = 0; i < bits.length; i++) bits[i] = ((halves[i] & 0x8000) << 16) | ((halves[i] & 0x7fff) << 13);
  for (let i = 0; i < result.length; i++) result[i] *= 2 ** 112;
  return result;
}
