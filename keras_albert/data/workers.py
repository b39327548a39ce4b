"""A function over many inputs, in several processes, results in the inputs' order.

The processes are light: they import neither Keras nor a backend, and start in a second. They are
started as commands rather than forked or spawned, so that nothing of the caller's program runs in
them, and they end when the pipe to it does, even where it was killed.
"""

import collections
import contextlib
import itertools
import os
import pickle
import queue
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from keras_albert.light import LIGHT


def usable_cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def map_in_order(work: Callable, inputs: Iterable, num_workers: int) -> Iterator:
    """Yields `work(x)` for each x of `inputs`, in their order.

    Args:
        work: a function or callable object; with several workers it is pickled.
        inputs: taken as they are needed: at most two for each worker are waiting or in work.
        num_workers: processes; 1 works in this one. The first few inputs are worked on here, so
            that a small corpus does not wait for processes to start.

    Raises:
        RuntimeError: where a worker process ended unasked, as when it is killed.
        Exception: what `work` or `inputs` raise.
    """
    inputs = iter(inputs)
    yield from map(work, itertools.islice(inputs, 4))
    if num_workers == 1:
        yield from map(work, inputs)
        return
    for first in inputs:  # none left: no processes
        yield from _in_processes(work, itertools.chain([first], inputs), num_workers)


def _in_processes(work: Callable, inputs: Iterator, num_workers: int) -> Iterator:
    import cloudpickle  # takes functions of the caller's program, lambdas included

    pickled_work = cloudpickle.dumps(work)
    waiting = collections.deque()
    with contextlib.ExitStack() as stack:
        idle = queue.SimpleQueue()
        for _ in range(num_workers):
            idle.put(stack.enter_context(_Worker(pickled_work)))
        # Threads only wait: one for each process.
        pool = stack.enter_context(ThreadPoolExecutor(num_workers))
        try:
            for item in inputs:
                waiting.append(pool.submit(_ask, idle, item))
                if len(waiting) >= 2 * num_workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def _ask(idle: queue.SimpleQueue, item):
    worker = idle.get()
    try:
        return worker.ask(item)
    finally:
        idle.put(worker)


class _Worker:
    """A process that answers each pickled input with a pickled (result, error)."""

    def __init__(self, pickled_work: bytes):
        # It imports what this process can, and nothing that happens to lie in its directory.
        path = os.pathsep.join(place or os.getcwd() for place in sys.path)
        with _ctrl_c_held_back():
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, LIGHT: "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": path},
            )
        self._pickled_work = pickled_work

    def ask(self, item):
        try:
            if self._pickled_work:
                pickle.dump(self._pickled_work, self._process.stdin)  # bytes: to be unpickled there
                self._pickled_work = b""
            pickle.dump(item, self._process.stdin)
            self._process.stdin.flush()
            result, error = pickle.load(self._process.stdout)
        except (OSError, EOFError, pickle.UnpicklingError) as lost:
            self._process.stdout.close()
            self._process.kill()
            raise RuntimeError(
                "A worker process ended unasked; was it killed for want of memory? Run it again, "
                "with a smaller `num_workers`: it goes on from where it was. Received: exit status "
                f"{self._process.wait()}"
            ) from lost
        if error is not None:
            raise error
        return result

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


@contextlib.contextmanager
def _ctrl_c_held_back():
    """Processes started within hold Ctrl-C back until they say what they do with it.

    A terminal sends it to all of them, also to those whose interpreter is still starting.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve():
    """What a worker process runs."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    # Programs that the work starts, and what it prints, must not get between the two.
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(2 if sys.stderr else nowhere, 1)
    try:
        work = pickle.loads(pickle.load(requests))
    except Exception:
        work = _Unusable(traceback.format_exc())  # told of when it is asked
    if hasattr(getattr(work, "tokenizer", None), "num_threads"):
        work.tokenizer.num_threads = 1  # the processes are the parallelism
    while True:
        try:
            item = pickle.load(requests)
        except EOFError:
            return
        try:
            answer = (work(item), None)
        except Exception as error:
            answer = (None, _picklable(error))
        pickle.dump(answer, answers)
        answers.flush()


class _Unusable:
    def __init__(self, reason: str):
        self.reason = reason

    def __call__(self, item):
        raise RuntimeError(
            "A worker process could not load what it is to do; with `num_workers=1` it does not "
            f"have to. Received, there: {self.reason}"
        )


def _picklable(error: Exception) -> Exception:
    """The error, or where it cannot be sent an error that says the same."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError("".join(traceback.format_exception(error)))
    return error


if __name__ == "__main__":
    _serve()
