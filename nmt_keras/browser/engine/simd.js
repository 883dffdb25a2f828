/**
 * The product of Q vectors with a matrix, in WebAssembly with SIMD.
 *
 * The program is assembled here, so that no build tool and no binary file is needed. It is
 *
 *     times(W, X, Y, outputs, bytes, count, scales, room):
 *         for each four rows of W:
 *             if scales: room[0 ... 3] = scales[row] * W[row], of int8
 *             for q in 0 ... count - 1:
 *                 Y[q, 0 ... 3] = SUM_i rows[0 ... 3][i] * X[q, i]       four i at once, in 16-byte vectors
 *
 * All arguments but `outputs`, `bytes` (of a float32 row) and `count` are addresses. `scales` is 0 if W is float32. A row
 * has a multiple of eight numbers, and W a multiple of four rows.
 */

const leb = (n) => (n < 128 ? [n] : [(n & 127) | 128, ...leb(n >>> 7)]);
const vector = (items) => [...leb(items.length), ...items.flat()];
const text = (word) => vector([...word].map((letter) => letter.charCodeAt(0)));
const section = (id, entries) => [id, ...vector(vector(entries))];

const get = (local) => [0x20, local];
const set = (local) => [0x21, local];
const constant = (n) => [0x41, n];
const [ADD, SUBTRACT, MULTIPLY, IS_LESS] = [0x6a, 0x6b, 0x6c, 0x49]; // of i32
const [ADD_F32, STORE_F32] = [0x92, 0x38];
const [ADD_VECTORS, MULTIPLY_VECTORS] = [
  [0xfd, 0xe4, 1],
  [0xfd, 0xe6, 1],
];
const ZEROS = [0xfd, 0x0c, ...new Array(16).fill(0)];
const plus = (a, b) => [...get(a), ...get(b), ADD];
const increase = (local, ...amount) => [...get(local), ...amount, ADD, ...set(local)];
const load = (base, offset) => [...plus(base, offset), 0xfd, 0, 4, 0];
const lane = (local, n) => [...get(local), 0xfd, 0x1f, n];
/** Repeats `body` while the condition, which is left on the stack, holds. */
const loop = (body, condition) => [0x03, 0x40, ...body, ...condition, 0x0d, 0, 0x0b];

const [W, X, Y, outputs, bytes, count, scales, room, W0, W1, W2, W3, left, q, x, y, i, p, v, scale, ...sums] = Array(24).keys();

function assembled() {
  const product = (row, sum) => [...get(sum), ...get(v), ...load(row, i), ...MULTIPLY_VECTORS, ...ADD_VECTORS, ...set(sum)];
  const stored = (sum, n) => [
    ...[...get(y), ...lane(sum, 0), ...lane(sum, 1), ADD_F32],
    ...[...lane(sum, 2), ...lane(sum, 3), ADD_F32, ADD_F32, STORE_F32, 2, 4 * n],
  ];
  const overInputs = loop(
    [...load(x, i), ...set(v), ...[W0, W1, W2, W3].flatMap((row, n) => product(row, sums[n])), ...increase(i, ...constant(16))],
    [...get(i), ...get(bytes), IS_LESS],
  );
  const overVectors = loop(
    [
      ...sums.flatMap((sum) => [...ZEROS, ...set(sum)]),
      ...[...constant(0), ...set(i), ...overInputs],
      ...sums.flatMap(stored),
      ...increase(y, ...get(outputs), ...constant(4), MULTIPLY),
      ...increase(x, ...get(bytes)),
      ...increase(q, ...constant(1)),
    ],
    [...get(q), ...get(count), IS_LESS],
  );
  const converted = (half, offset) => [
    ...[...get(p), ...get(v), 0xfd, half, 1, 0xfd, 0xfa, 1, ...get(scale), ...MULTIPLY_VECTORS],
    ...[0xfd, 0x0b, 4, offset], // v128.store
  ];
  const conversion = loop(
    [
      ...[...get(scales), 0x2a, 2, 0, 0xfd, 0x13, ...set(scale), ...increase(scales, ...constant(4))],
      ...[...constant(0), ...set(i)],
      ...loop(
        [
          ...[...get(W), 0xfd, 1, 3, 0, ...set(v), ...converted(0xa7, 0), ...converted(0xa8, 16)], // v128.load8x8_s
          ...[...increase(W, ...constant(8)), ...increase(p, ...constant(32)), ...increase(i, ...constant(32))],
        ],
        [...get(i), ...get(bytes), IS_LESS],
      ),
      ...increase(q, ...constant(1)),
    ],
    [...get(q), ...constant(4), IS_LESS],
  );
  const overRows = loop(
    [
      ...[...get(W), ...set(W0), ...get(scales), 0x04, 0x40], // if
      ...[...get(room), ...set(W0), ...get(room), ...set(p), ...constant(0), ...set(q), ...conversion],
      ...[0x05, ...get(W), ...get(bytes), ...constant(4), MULTIPLY, ADD, ...set(W), 0x0b], // else, end
      ...[...plus(W0, bytes), ...set(W1), ...plus(W1, bytes), ...set(W2), ...plus(W2, bytes), ...set(W3)],
      ...[...constant(0), ...set(q), ...get(X), ...set(x), ...get(Y), ...set(y), ...overVectors],
      ...[...increase(Y, ...constant(16))],
      ...[...get(left), ...constant(4), SUBTRACT, ...set(left)],
    ],
    [...constant(0), ...get(left), IS_LESS],
  );
  const [I32, V128] = [0x7f, 0x7b];
  const locals = vector([
    [10, I32],
    [6, V128],
  ]);
  const body = [...locals, ...get(outputs), ...set(left), ...overRows, 0x0b];
  return Uint8Array.from([
    ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...section(1, [[0x60, ...vector(Array(8).fill(I32)), 0]]),
    ...section(2, [[...text("e"), ...text("m"), 2, 0, 1]]),
    ...section(3, [[0]]),
    ...section(7, [[...text("t"), 0, 0]]),
    ...section(10, [vector(body)]),
  ]);
}

const PAGE = 1 << 16;
const memory = new WebAssembly.Memory({ initial: 1 });
const { t: times } = new WebAssembly.Instance(new WebAssembly.Module(assembled()), { e: { m: memory } }).exports;
let floats = new Float32Array(memory.buffer);
let used = 4; // no address is 0

/** Reserves space for `size` numbers, a multiple of four, and returns its address in numbers. */
export function reserve(size) {
  const begin = used;
  used += size;
  const missing = Math.ceil((4 * used) / PAGE) - memory.buffer.byteLength / PAGE;
  if (missing > 0) {
    memory.grow(missing);
    floats = new Float32Array(memory.buffer);
  }
  return begin;
}

/** Returns all numbers. `reserve` makes earlier results invalid. */
export const numbers = () => floats;

let scratch = { x: 0, y: 0, room: 0, sizes: [0, 0, 0] };

/**
 * Returns W x for each of Q rows x.
 *
 * @param {{address: number, scales: number, outputs: number, inputs: number, columns: number, rows: number}} matrix
 *     addresses in bytes
 * @param {Float32Array} x [Q, inputs]
 * @returns {Float32Array} [Q, outputs]
 */
export function product({ address, scales, outputs, inputs, columns, rows }, x) {
  const count = x.length / inputs;
  const needed = [count * columns, count * rows, 4 * columns];
  if (needed.some((size, n) => size > scratch.sizes[n])) {
    const sizes = needed.map((size, n) => Math.max(size, scratch.sizes[n]));
    const [x, y, room] = sizes.map((size) => reserve(size));
    scratch = { x, y, room, sizes };
  }
  if (columns === inputs) floats.set(x, scratch.x);
  else {
    for (let q = 0; q < count; q++) {
      floats.set(x.subarray(q * inputs, (q + 1) * inputs), scratch.x + q * columns);
      floats.fill(0, scratch.x + q * columns + inputs, scratch.x + (q + 1) * columns);
    }
  }
  times(address, 4 * scratch.x, 4 * scratch.y, rows, 4 * columns, count, scales, 4 * scratch.room);
  if (rows === outputs) return floats.slice(scratch.y, scratch.y + count * outputs);
  const y = new Float32Array(count * outputs);
  for (let q = 0; q < count; q++) y.set(floats.subarray(scratch.y + q * rows, scratch.y + q * rows + outputs), q * outputs);
  return y;
}
