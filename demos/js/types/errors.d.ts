/** A state that does not fit a step: of another step, or damaged. */
export class StateError extends Error {
    /** @param {string} message */
    constructor(message: string);
}
/** A batch that lacks an input of the step, or has one that it does not know. */
export class FeedError extends Error {
    /** @param {string} message */
    constructor(message: string);
}
