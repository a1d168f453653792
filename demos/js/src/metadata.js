// The metadata of an ONNX file, which ONNX Runtime for JavaScript does not hand out.

const METADATA = 14; // the field `metadata_props` of ModelProto in onnx.proto
const [VARINT, FIXED64, BYTES, FIXED32] = [0, 1, 2, 5]; // wire types of Protocol Buffers

/**
 * Read the fields of a message of Protocol Buffers.
 *
 * @param {Uint8Array} bytes
 * @returns {Generator<[number, Uint8Array]>} number and bytes of each field that has a length
 */
function* fields(bytes) {
  let at = 0;
  const varint = () => {
    let value = 0;
    for (let factor = 1; ; factor *= 128) {
      if (at >= bytes.length) throw new Error("this is no ONNX model");
      const byte = bytes[at++];
      value += (byte & 127) * factor;
      if (byte < 128) return value;
    }
  };
  while (at < bytes.length) {
    const tag = varint();
    const type = tag & 7;
    if (type === VARINT) varint();
    else if (type === FIXED64) at += 8;
    else if (type === FIXED32) at += 4;
    else if (type === BYTES) {
      const size = varint();
      if (at + size > bytes.length) throw new Error("this is no ONNX model");
      yield [Math.floor(tag / 8), bytes.subarray(at, at + size)];
      at += size;
    } else throw new Error("this is no ONNX model");
  }
}

/**
 * Return the metadata of a model.
 *
 * @param {Uint8Array} model the bytes of an ONNX file
 * @returns {Record<string, string>}
 */
export function metadata(model) {
  const text = new TextDecoder();
  /** @type {Record<string, string>} */
  const found = Object.create(null);
  for (const [number, entry] of fields(model)) {
    if (number !== METADATA) continue;
    const parts = Object.fromEntries(fields(entry));
    found[text.decode(parts[1])] = text.decode(parts[2]);
  }
  return found;
}
