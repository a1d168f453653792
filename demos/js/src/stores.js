// Where states are kept: the database of a browser, or files.

/**
 * Keeps bytes under names.
 *
 * @typedef {{
 *   get(name: string): Promise<Uint8Array | undefined>,
 *   put(name: string, bytes: Uint8Array): Promise<void>,
 *   delete(name: string): Promise<void>,
 * }} Store
 */

const TABLE = "states";

/**
 * A store in IndexedDB, which stays when the page is loaded again. A write is whole or not at all.
 *
 * @implements {Store}
 */
export class BrowserStore {
  /** @param {string} [database] */
  constructor(database = "pd-training-step") {
    this.database = database;
  }

  /**
   * @param {IDBTransactionMode} mode
   * @param {(table: IDBObjectStore) => IDBRequest} call
   * @returns {Promise<any>}
   */
  async #do(mode, call) {
    const opening = indexedDB.open(this.database, 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore(TABLE);
    const database = await result(opening);
    try {
      const transaction = database.transaction(TABLE, mode);
      const request = call(transaction.objectStore(TABLE));
      await new Promise((resolve, reject) => {
        transaction.oncomplete = resolve;
        transaction.onerror = transaction.onabort = () => reject(transaction.error);
      });
      return request.result;
    } finally {
      database.close();
    }
  }

  /** @param {string} name */
  get(name) {
    return this.#do("readonly", (table) => table.get(name));
  }

  /**
   * @param {string} name
   * @param {Uint8Array} bytes
   */
  async put(name, bytes) {
    await this.#do("readwrite", (table) => table.put(bytes, name));
  }

  /** @param {string} name */
  async delete(name) {
    await this.#do("readwrite", (table) => table.delete(name));
  }
}

/**
 * @param {IDBOpenDBRequest} request
 * @returns {Promise<IDBDatabase>}
 */
function result(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

/**
 * A store of files `<name>.safetensors` in a folder, for Node. A file is renamed when it is whole.
 *
 * @implements {Store}
 */
export class FileStore {
  /** @param {string} folder */
  constructor(folder) {
    this.folder = folder;
  }

  async #path(/** @type {string} */ name) {
    if (!/^[\w.-]+$/.test(name) || name.startsWith(".")) {
      throw new Error(`“${name}” is no name of a file: letters, digits, “.”, “-” and “_”`);
    }
    const { join } = await load("node:path");
    return join(this.folder, `${name}.safetensors`);
  }

  /** @param {string} name */
  async get(name) {
    const { readFile } = await load("node:fs/promises");
    try {
      return new Uint8Array(await readFile(await this.#path(name)));
    } catch (error) {
      if (/** @type {any} */ (error).code === "ENOENT") return undefined;
      throw error;
    }
  }

  /**
   * @param {string} name
   * @param {Uint8Array} bytes
   */
  async put(name, bytes) {
    const { mkdir, rename, writeFile } = await load("node:fs/promises");
    const path = await this.#path(name);
    await mkdir(this.folder, { recursive: true });
    const partial = `${path}.${crypto.randomUUID()}.partial`;
    await writeFile(partial, bytes, { flush: true });
    await rename(partial, path);
  }

  /** @param {string} name */
  async delete(name) {
    const { rm } = await load("node:fs/promises");
    await rm(await this.#path(name), { force: true });
  }
}

/**
 * Import a module of Node, which bundlers for browsers do not follow.
 *
 * @param {string} name
 * @returns {Promise<any>}
 */
function load(name) {
  return import(/* webpackIgnore: true */ /* @vite-ignore */ name);
}
