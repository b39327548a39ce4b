"""Batches made in a thread while the device computes on those before."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


class Prefetcher:
    """Calls `function(n)`; the results for n + 1, n + 2, ... are then made before they are asked.

    Keras has threads for this too, but they lose the batch that Keras builds a model with: a run
    would not begin with its first batch.

    Args:
        function: of an integer; pure.
        depth: how many results to make ahead; 0 for none.
    """

    def __init__(self, function: Callable, depth: int):
        self.function, self.depth = function, depth
        self._clear()

    def _clear(self):
        self._process = os.getpid()
        self._lock, self._pool, self._ahead = threading.Lock(), None, {}

    def __reduce__(self):  # threads stay where they are
        return type(self), (self.function, self.depth)

    def __call__(self, n: int, end: int | None = None):
        """Returns `function(n)`.

        Args:
            n: any integer.
            end: nothing is made ahead from here on; None where there is no end.
        """
        if not self.depth:
            return self.function(n)
        if self._process != os.getpid():  # after a fork the threads are not there
            self._clear()
        with self._lock:
            self._pool = self._pool or ThreadPoolExecutor(min(self.depth, 2), "prefetch")
            future = self._ahead.pop(n, None)
            wanted = range(n + 1, n + 1 + self.depth)
            for other in [other for other in self._ahead if other not in wanted]:
                self._ahead.pop(other).cancel()
            for other in wanted:
                if other not in self._ahead and (end is None or other < end):
                    self._ahead[other] = self._pool.submit(self.function, other)
        return self.function(n) if future is None else future.result()
