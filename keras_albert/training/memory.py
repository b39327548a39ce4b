"""Memory that one training step frees is kept for the next."""

import ctypes

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # of mallopt, in <malloc.h>


def keep_freed_memory() -> bool:
    """Ask the C library to keep large blocks that are freed, rather than to give them back.

    Each step on a CPU allocates the same large arrays and frees them again. glibc maps every block
    of more than 32 MB afresh, and the system clears it page by page at its first use: with
    TensorFlow's allocator a good part of a step. The process holds on to its peak of memory
    instead. `keras-albert pretrain` and the fine-tuning commands call this.

    Returns:
        Whether the C library knows the request: with glibc, on Linux.

    Source: mallopt(3).

    Example:
    ```python
    keep_freed_memory()  # once, before the first step
    ```
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    # Heaps of threads, 64 MB at most, are given back whole unless the pad is larger than they.
    wanted = {_TRIM_THRESHOLD: 2**31 - 1, _TOP_PAD: 2**28, _MMAP_THRESHOLD: 2**30}
    return all([mallopt(name, value) for name, value in wanted.items()])
