// Files of named arrays in the format safetensors.

import { StateError } from "./errors.js";

/**
 * An array with its type, as ONNX Runtime names types.
 *
 * @typedef {{ type: string, dims: readonly number[], data: ArrayBufferView & ArrayLike<number | bigint> }} NamedArray
 */

/** @type {Record<string, [string, any]>} */
const TYPES = {
  float32: ["F32", Float32Array],
  float64: ["F64", Float64Array],
  float16: ["F16", Uint16Array],
  int64: ["I64", BigInt64Array],
  int32: ["I32", Int32Array],
  int16: ["I16", Int16Array],
  int8: ["I8", Int8Array],
  uint64: ["U64", BigUint64Array],
  uint32: ["U32", Uint32Array],
  uint16: ["U16", Uint16Array],
  uint8: ["U8", Uint8Array],
  bool: ["BOOL", Uint8Array],
};
const NAMES = Object.fromEntries(Object.entries(TYPES).map(([type, [name]]) => [name, type]));
const METADATA = "__metadata__";

/**
 * Write arrays.
 *
 * @param {Record<string, NamedArray>} arrays
 * @param {Record<string, string>} [metadata]
 * @returns {Uint8Array<ArrayBuffer>}
 */
export function encode(arrays, metadata) {
  /** @type {Record<string, unknown>} */
  const header = metadata ? { [METADATA]: metadata } : {};
  let end = 0;
  for (const [name, { type, dims, data }] of Object.entries(arrays)) {
    const start = end;
    end += data.byteLength;
    header[name] = { dtype: TYPES[type][0], shape: [...dims], data_offsets: [start, end] };
  }
  let json = JSON.stringify(header);
  json += " ".repeat(-new TextEncoder().encode(json).length & 7); // arrays begin at a multiple of 8
  const text = new TextEncoder().encode(json);
  const bytes = new Uint8Array(8 + text.length + end);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(text.length), true);
  bytes.set(text, 8);
  let at = 8 + text.length;
  for (const { data } of Object.values(arrays)) {
    bytes.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), at);
    at += data.byteLength;
  }
  return bytes;
}

/**
 * Read arrays; a StateError says what is damaged.
 *
 * @param {Uint8Array} bytes
 * @returns {{ arrays: Record<string, NamedArray>, metadata: Record<string, string> }}
 */
export function decode(bytes) {
  const { header, begin } = headerOf(bytes);
  const { [METADATA]: metadata = {}, ...entries } = header;
  /** @type {Record<string, NamedArray>} */
  const arrays = Object.create(null);
  for (const [name, entry] of Object.entries(entries)) {
    const type = NAMES[entry?.dtype];
    const [start, end] = entry?.data_offsets ?? [];
    const dims = entry?.shape;
    const counted = Array.isArray(dims) && dims.every((n) => Number.isSafeInteger(n) && n >= 0);
    if (!type || !counted || !(start >= 0 && end >= start && begin + end <= bytes.length)) {
      throw new StateError(`the entry “${name}” of the saved state is damaged`);
    }
    const Kind = TYPES[type][1];
    const size = dims.reduce((/** @type {number} */ a, /** @type {number} */ b) => a * b, 1);
    if (size * Kind.BYTES_PER_ELEMENT !== end - start) {
      throw new StateError(`the entry “${name}” of the saved state has ${end - start} bytes`);
    }
    arrays[name] = { type, dims, data: new Kind(bytes.slice(begin + start, begin + end).buffer) };
  }
  return { arrays, metadata };
}

/** @param {Uint8Array} bytes */
function headerOf(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const size = bytes.length < 8 ? -1 : Number(view.getBigUint64(0, true));
  if (size < 0 || size > bytes.length - 8) throw new StateError("the saved state is cut off");
  try {
    const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + size)));
    if (header && typeof header === "object") return { header, begin: 8 + size };
  } catch {
    // said below
  }
  throw new StateError("the saved state has no readable header");
}
