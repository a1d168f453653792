/**
 * A store in IndexedDB, which stays when the page is loaded again. A write is whole or not at all.
 *
 * @implements {Store}
 */
export class BrowserStore implements Store {
    /** @param {string} [database] */
    constructor(database?: string);
    database: string;
    /** @param {string} name */
    get(name: string): Promise<any>;
    /**
     * @param {string} name
     * @param {Uint8Array} bytes
     */
    put(name: string, bytes: Uint8Array): Promise<void>;
    /** @param {string} name */
    delete(name: string): Promise<void>;
    #private;
}
/**
 * A store of files `<name>.safetensors` in a folder, for Node. A file is renamed when it is whole.
 *
 * @implements {Store}
 */
export class FileStore implements Store {
    /** @param {string} folder */
    constructor(folder: string);
    folder: string;
    /** @param {string} name */
    get(name: string): Promise<Uint8Array<any> | undefined>;
    /**
     * @param {string} name
     * @param {Uint8Array} bytes
     */
    put(name: string, bytes: Uint8Array): Promise<void>;
    /** @param {string} name */
    delete(name: string): Promise<void>;
    #private;
}
/**
 * Keeps bytes under names.
 */
export type Store = {
    get(name: string): Promise<Uint8Array | undefined>;
    put(name: string, bytes: Uint8Array): Promise<void>;
    delete(name: string): Promise<void>;
};
