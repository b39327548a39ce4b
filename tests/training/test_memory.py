"""Oracle: the system's count of pages that it had to bring in."""

import subprocess
import sys

import pytest

from tests.conftest import ROOT

PROGRAM = """
import ctypes, importlib.util, resource, threading

spec = importlib.util.spec_from_file_location("memory", "keras_albert/training/memory.py")
memory = importlib.util.module_from_spec(spec)
spec.loader.exec_module(memory)
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]


def faults(megabytes):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        block = libc.malloc(megabytes << 20)
        ctypes.memset(block, 1, megabytes << 20)
        libc.free(block)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


counts = []


def measure(megabytes):
    before = faults(megabytes)
    known = memory.keep_freed_memory()
    faults(megabytes)
    counts.append((int(known), before, faults(megabytes)))


# A thread has heaps of its own; nothing is set yet when it begins.
thread = threading.Thread(target=measure, args=(40,))
thread.start()
thread.join()
print(*counts[0])
"""


@pytest.mark.backend_free
def test_a_freed_block_is_there_for_the_next_step():
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, cwd=ROOT, check=True
    )
    known, before, after = map(int, result.stdout.split())
    if not known:
        pytest.skip("this C library has no mallopt")
    # Huge pages take 50 faults a block, small ones 25,600.
    assert before >= 10 * 50
    assert after < before / 10
