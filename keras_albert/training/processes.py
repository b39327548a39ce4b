"""What the processes of one run have to agree on: JAX's, after `keras.distribution.initialize`.

Every function is called by all of them in the same order, or they wait for each other for ever.
"""

import keras
import numpy as np

from keras_albert.training import ddp


def process_index() -> int:
    """Which process this is; 0 is the one that writes."""
    return _processes()[0]


def num_processes() -> int:
    """How many processes there are; 1 outside a distributed run."""
    return _processes()[1]


def any_process(value: bool) -> bool:
    """Whether it is true in any of them."""
    if num_processes() == 1:
        return bool(value)
    if keras.backend.backend() == "torch":
        import torch

        found = torch.tensor([float(bool(value))], device=_torch_device())
        torch.distributed.all_reduce(found)
        return bool(found.item())
    from jax.experimental.multihost_utils import process_allgather

    return bool(np.any(process_allgather(np.array([bool(value)]))))


def gather(value) -> np.ndarray:
    """All of a variable, in NumPy; of one that is split over processes, every process gets all."""
    if keras.backend.backend() == "jax":
        array = getattr(value, "value", value)
        if not (array.is_fully_addressable or array.is_fully_replicated):
            from jax.experimental.multihost_utils import process_allgather

            return np.array(process_allgather(array, tiled=True))
    return np.array(keras.ops.convert_to_numpy(value))


def data_slice() -> tuple[int, int]:
    """Which of how many slices of every batch this process reads: `PretrainingDataset`'s last two.

    One slice a process; where `keras.distribution` splits one model over several processes, they
    read the same one. Under `torchrun` this meets the other processes.
    """
    ddp.initialize()
    index, count = _processes()
    distribution = keras.distribution.distribution() if count > 1 else None
    if distribution is None:
        return index, count
    return distribution.data_shard_id, min(distribution.num_model_replicas, count)


def check_slices(data) -> None:
    """Raise a `ValueError` where a stream's slice of the batch is not this process's.

    What every process reads is taken for another part of the batch: without slices, each example
    would be in it as many times as there are processes.
    """
    if num_processes() == 1 or not hasattr(data, "process_index"):
        return
    index, count = data_slice()
    if (data.process_index, data.num_processes) != (index, count):
        raise ValueError(
            "In a run of several processes each must read its own slice: make the dataset with "
            f"`process_index={index}, num_processes={count}`. Received: process_index="
            f"{data.process_index}, num_processes={data.num_processes}"
        )


def _processes() -> tuple[int, int]:
    backend = keras.backend.backend()
    if backend == "jax":
        import jax

        return jax.process_index(), jax.process_count()
    if backend == "torch":
        import torch

        if torch.distributed.is_available() and torch.distributed.is_initialized():
            return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1


def _torch_device():
    import torch

    return "cuda" if torch.distributed.get_backend() == "nccl" else "cpu"
