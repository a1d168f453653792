// Files of named arrays in the format safetensors.

/** Return a Blob with float32 arrays { name: { dims, data } }. */
export function safetensors(arrays) {
  const header = {};
  let end = 0;
  for (const [name, { dims, data }] of Object.entries(arrays)) {
    const start = end;
    end += data.byteLength;
    header[name] = { dtype: "F32", shape: [...dims], data_offsets: [start, end] };
  }
  const json = new TextEncoder().encode(JSON.stringify(header));
  const padding = new Uint8Array(-json.length & 7).fill(32); // the arrays begin at a multiple of 8
  const size = new DataView(new ArrayBuffer(8));
  size.setBigUint64(0, BigInt(json.length + padding.length), true);
  const parts = [size.buffer, json, padding, ...Object.values(arrays).map(({ data }) => data)];
  return new Blob(parts, { type: "application/octet-stream" });
}

/** Let the visitor save a Blob. */
export function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
