/**
 * Write arrays.
 *
 * @param {Record<string, NamedArray>} arrays
 * @param {Record<string, string>} [metadata]
 * @returns {Uint8Array<ArrayBuffer>}
 */
export function encode(arrays: Record<string, NamedArray>, metadata?: Record<string, string>): Uint8Array<ArrayBuffer>;
/**
 * Read arrays; a StateError says what is damaged.
 *
 * @param {Uint8Array} bytes
 * @returns {{ arrays: Record<string, NamedArray>, metadata: Record<string, string> }}
 */
export function decode(bytes: Uint8Array): {
    arrays: Record<string, NamedArray>;
    metadata: Record<string, string>;
};
/**
 * An array with its type, as ONNX Runtime names types.
 */
export type NamedArray = {
    type: string;
    dims: readonly number[];
    data: ArrayBufferView & ArrayLike<number | bigint>;
};
