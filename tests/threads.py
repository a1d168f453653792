"""Work done in several threads at once."""

import threading


def in_threads(work, keys):
    """Run `work(key)` for all keys at once; return {key: result}, or raise the first error."""
    results, errors = {}, []

    def run(key):
        try:
            results[key] = work(key)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(key,)) for key in keys]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results
