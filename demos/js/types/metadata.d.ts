/**
 * Return the metadata of a model.
 *
 * @param {Uint8Array} model the bytes of an ONNX file
 * @returns {Record<string, string>}
 */
export function metadata(model: Uint8Array): Record<string, string>;
