"""heapq, bisect and Queue.PriorityQueue, for values of any types: Python 3 does not order all.

`heappush(heap, (score, node))` compares two nodes where scores are equal.
"""

from pd_v2.python2.shims.comparison import compare, sorted_any
from pd_v2.python2.shims.views import overrides


def _less(a, b):
    return compare("less", a, b)


def _sift_down(heap, start, place):
    """Move the last added value towards the root, as far as it is less than its parents."""
    value = heap[place]
    while place > start:
        parent = (place - 1) >> 1
        if not _less(value, heap[parent]):
            break
        heap[place] = heap[parent]
        place = parent
    heap[place] = value


def _sift_up(heap, place):
    """Move a value to a leaf, along the lesser children, and from there to its place."""
    start, value, child = place, heap[place], 2 * place + 1
    while child < len(heap):
        if child + 1 < len(heap) and not _less(heap[child], heap[child + 1]):
            child += 1
        heap[place] = heap[child]
        place, child = child, 2 * child + 1
    heap[place] = value
    _sift_down(heap, start, place)


def heappush(heap, item):
    """`heapq.heappush(...)`"""
    heap.append(item)
    _sift_down(heap, 0, len(heap) - 1)


def heappop(heap):
    """`heapq.heappop(...)`"""
    last = heap.pop()  # raises an IndexError if the heap is empty
    return heapreplace(heap, last) if heap else last


def heapreplace(heap, item):
    """`heapq.heapreplace(...)`"""
    least, heap[0] = heap[0], item
    _sift_up(heap, 0)
    return least


def heappushpop(heap, item):
    """`heapq.heappushpop(...)`"""
    return heapreplace(heap, item) if heap and _less(heap[0], item) else item


def heapify(values):
    """`heapq.heapify(...)`"""
    for place in reversed(range(len(values) // 2)):
        _sift_up(values, place)


def _nlargest(n, iterable, key=None):
    return sorted_any(iterable, key=key, reverse=True)[: max(n, 0)]


def _nsmallest(n, iterable, key=None):
    return sorted_any(iterable, key=key)[: max(n, 0)]


@overrides("heapq")
def _heapq(_):
    functions = (heapify, heappop, heappush, heappushpop, heapreplace)
    names = {function.__name__: function for function in functions}
    return names | {"nlargest": _nlargest, "nsmallest": _nsmallest}


def _place(a, x, lo, hi, is_before):
    hi = len(a) if hi is None else hi
    while lo < hi:
        middle = (lo + hi) // 2
        if is_before(a[middle], x):
            lo = middle + 1
        else:
            hi = middle
    return lo


def _bisect_left(a, x, lo=0, hi=None):
    return _place(a, x, lo, hi, _less)


def _bisect_right(a, x, lo=0, hi=None):
    return _place(a, x, lo, hi, lambda value, x: not _less(x, value))


@overrides("bisect")
def _bisect(_):
    def inserting(place):
        return lambda a, x, lo=0, hi=None: a.insert(place(a, x, lo, hi), x)

    left, right = inserting(_bisect_left), inserting(_bisect_right)
    places = {"bisect": _bisect_right, "bisect_left": _bisect_left, "bisect_right": _bisect_right}
    return places | {"insort": right, "insort_left": left, "insort_right": right}


@overrides("queue")
def _queue(queue):
    class PriorityQueue(queue.PriorityQueue):
        """A queue that gives the least value first."""

        def _put(self, item):
            heappush(self.queue, item)

        def _get(self):
            return heappop(self.queue)

    return {"PriorityQueue": PriorityQueue}
