"""Oracle: the system's count of pages that it had to bring in."""

import subprocess
import sys

import pytest

from tests.conftest import ROOT

PROGRAM = """
import ctypes, importlib.util, resource

spec = importlib.util.spec_from_file_location("memory", "keras_albert/training/memory.py")
memory = importlib.util.module_from_spec(spec)
spec.loader.exec_module(memory)
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]


def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        block = libc.malloc(100 << 20)
        ctypes.memset(block, 1, 100 << 20)
        libc.free(block)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


before = faults()
print(int(memory.keep_freed_memory()))
faults()
print(before, faults())
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
