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
 * All arguments but `outputs`, `bytes` (of a float32 row) and `count` are addresses. `scales` is 0 if W is float32. A
 * row has a multiple of eight numbers, and W a multiple of four rows.
 */

const leb = (n) => (n < 128 ? [n] : [(n & 127) | 128, ...leb(n >>> 7)]);
const vector = (...items) => [leb(items.length), items];
const sized = (...parts) => vector(...parts.flat(Infinity)); // bytes
const section = (id, ...entries) => [id, sized(vector(...entries))];

const get = (local) => [0x20, local];
const set = (local) => [0x21, local];
const constant = (n) => [0x41, n];
const [I32, V128, ADD, MULTIPLY, IS_LESS] = [0x7f, 0x7b, 0x6a, 0x6c, 0x49]; // operations of i32
const [ADD_F32, STORE_F32] = [0x92, 0x38];
const STORE = [0xfd, 0x0b, 4]; // v128.store
const [ADD_VECTORS, MULTIPLY_VECTORS] = [0xe4, 0xe6].map((code) => [0xfd, code, 1]);
const ZEROS = [0xfd, 0x0c, new Array(16).fill(0)];
const plus = (a, b) => [get(a), get(b), ADD];
const increase = (local, ...amount) => [get(local), amount, ADD, set(local)];
const load = (base, offset) => [plus(base, offset), 0xfd, 0, 4, 0];
const lane = (local, n) => [get(local), 0xfd, 0x1f, n];
/** Repeats `body` for `local` = 0, step, ... below `end`, at least once. */
const loop = (local, end, step, ...body) => {
  const condition = [increase(local, constant(step)), get(local), end, IS_LESS];
  return [constant(0), set(local), 0x03, 0x40, body, condition, 0x0d, 0, 0x0b];
};

const [W, X, Y, outputs, bytes, count, scales, room, W0, W1, W2, W3, row, q, x, y, i, p] = Array(18).keys();
const [v, scale, ...sums] = [18, 19, 20, 21, 22, 23]; // of four numbers

function assembled() {
  const product = (sum, n) => [get(sum), get(v), load([W0, W1, W2, W3][n], i), MULTIPLY_VECTORS, ADD_VECTORS, set(sum)];
  const stored = (sum, n) => [
    [get(y), lane(sum, 0), lane(sum, 1), ADD_F32],
    [lane(sum, 2), lane(sum, 3), ADD_F32, ADD_F32, STORE_F32, 2, 4 * n],
  ];
  const vectors = [
    ...[sums.map((sum) => [ZEROS, set(sum)]), loop(i, get(bytes), 16, load(x, i), set(v), sums.map(product))],
    ...[sums.map(stored), increase(y, get(outputs), constant(4), MULTIPLY), increase(x, get(bytes))],
  ];
  const converted = (half) => [get(v), 0xfd, half, 1, 0xfd, 0xfa, 1, get(scale), MULTIPLY_VECTORS];
  const conversion = [
    [get(scales), 0x2a, 2, 0, 0xfd, 0x13, set(scale), increase(scales, constant(4))],
    loop(i, get(bytes), 32, [
      [get(W), 0xfd, 1, 3, 0, set(v)], // v128.load8x8_s
      [get(p), converted(0xa7), STORE, 0, get(p), converted(0xa8), STORE, 16],
      [increase(W, constant(8)), increase(p, constant(32))],
    ]),
  ];
  const rows = [
    [get(W), set(W0), get(scales), 0x04, 0x40], // if
    [get(room), set(W0), get(room), set(p), loop(q, constant(4), 1, conversion)],
    [0x05, increase(W, get(bytes), constant(4), MULTIPLY), 0x0b], // else, end
    [plus(W0, bytes), set(W1), plus(W1, bytes), set(W2), plus(W2, bytes), set(W3)],
    [get(X), set(x), get(Y), set(y), loop(q, get(count), 1, vectors), increase(Y, constant(16))],
  ];
  const program = [vector([10, I32], [6, V128]), loop(row, get(outputs), 4, rows), 0x0b];
  const name = (letter) => sized(letter.charCodeAt(0));
  const sections = [
    section(1, [0x60, vector(...Array(8).fill(I32)), 0]),
    section(2, [name("e"), name("m"), 2, 0, 1]),
    section(3, [0]),
    section(7, [name("t"), 0, 0]),
    section(10, sized(program)),
  ];
  return Uint8Array.from([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, sections].flat(Infinity));
}

/** Memory of the program. */
export const memory = new WebAssembly.Memory({ initial: 1 });
const { exports } = new WebAssembly.Instance(new WebAssembly.Module(assembled()), { e: { m: memory } });
/** The program; see above. */
export const times = exports.t;
