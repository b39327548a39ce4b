"""Data parallel training under `torchrun`: the step of all processes is the step of one.

    torchrun --nproc-per-node 8 train.py

Keras' `fit` does not notice the other processes. Here the weights of losses, gradients and metrics
are summed over them; every process reads its own slice of the batch (`process_index` and
`num_processes` of `PretrainingDataset`). Not `torch.nn.parallel.DistributedDataParallel`, which
takes the mean of losses that are means over different numbers of masked tokens.
"""

import os

import keras


def is_distributed() -> bool:
    """Whether this is one of several processes that `torchrun` started, under PyTorch."""
    return keras.backend.backend() == "torch" and int(os.environ.get("WORLD_SIZE", "1")) > 1


def initialize() -> None:
    """Meet the other processes: by NCCL where there are GPUs, of which each takes one; else Gloo.

    Does nothing in a single process, or where it is done already.

    Raises:
        ValueError: a process has no GPU of its own.
    """
    if not is_distributed():
        return
    import torch

    if torch.distributed.is_initialized():
        return
    if not torch.cuda.is_available():
        torch.distributed.init_process_group("gloo")
        return
    place, count = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
    if place >= count:
        raise ValueError(
            "Each process of a machine must have a GPU of its own: run "
            f"`torchrun --nproc-per-node {count}`. Received: LOCAL_RANK={place}, {count} GPUs"
        )
    torch.cuda.set_device(place)
    torch.distributed.init_process_group("nccl")


def broadcast_weights(model) -> None:
    """Give every process the variables of process 0, and dropout masks of its own.

    Args:
        model: a built model. Its optimizer's variables too, where that is built.
    """
    import torch

    optimizer = getattr(model, "optimizer", None)
    for variable in [*model.variables, *(optimizer.variables if optimizer else [])]:
        torch.distributed.broadcast(variable.value.data, 0)
    # Dropout draws from torch's generator, which a seed has set alike in all of them.
    torch.manual_seed(torch.initial_seed() + torch.distributed.get_rank())


def all_reduce_sum(tensors):
    """Each tensor of a structure summed over the processes, if there are several; a None stays."""
    if not is_distributed():
        return tensors
    initialize()
    import torch

    def total(tensor):
        if tensor is None:
            return None
        found = tensor.detach().clone()
        torch.distributed.all_reduce(found)
        return found

    return keras.tree.map_structure(total, tensors)


def mean_gradients(grads) -> list:
    """Gradients averaged over the processes, which send them at once, as one tensor a dtype."""
    import torch

    found, by_dtype = list(grads), {}
    if not is_distributed():
        return found
    for place, grad in enumerate(found):
        if grad is not None:
            by_dtype.setdefault(grad.dtype, []).append(place)
    for places in by_dtype.values():
        flat = torch.cat([found[place].reshape(-1) for place in places])
        torch.distributed.all_reduce(flat)
        flat /= torch.distributed.get_world_size()
        sizes = [found[place].numel() for place in places]
        for place, part in zip(places, flat.split(sizes), strict=True):
            found[place] = part.view_as(found[place])
    return found


def metrics_of_all(model, results) -> dict:
    """`results()` over the examples of all processes: metrics hold sums, which add up."""
    if not is_distributed():
        return results()
    variables = model.metrics_variables
    sums = all_reduce_sum([variable.value for variable in variables])
    with keras.StatelessScope(zip(variables, sums, strict=True)):
        return results()
