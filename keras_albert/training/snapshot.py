"""All numbers of a run in training, as NumPy arrays, and back."""

import keras

from keras_albert.training.processes import gather, num_processes, process_index


def take_snapshot(model, within_epoch: bool) -> dict:
    """Copies of the arrays that the next step depends on; all processes of a run call it.

    Args:
        model: a compiled model that has taken a step.
        within_epoch: whether to add the sums of the metrics, which begin anew with an epoch.

    Returns:
        A dict of arrays: `model/0000`, `optimizer/0000`, `metrics/0000`, `generators/0000` and so
        on.
    """
    parts = {"model": model.variables, "optimizer": model.optimizer.variables}
    if within_epoch:
        parts["metrics"] = model.metrics_variables
    parts["generators"] = _generator_states()
    return {
        f"{part}/{number:04d}": gather(value)
        for part, values in parts.items()
        for number, value in enumerate(values)
    }


def split_snapshot(arrays: dict) -> dict:
    """Lists of the arrays of each part."""
    parts = {"model": [], "optimizer": [], "metrics": [], "generators": []}
    for name in sorted(arrays):
        parts[name.split("/")[0]].append(arrays[name])
    return parts


def assign_all(variables, arrays):
    """Gives variables their saved values, one for one."""
    for variable, array in zip(variables, arrays, strict=True):
        variable.assign(array)


def restore_generators(states):
    """Sets torch's own generators; other backends have none that training draws from."""
    if states:
        import torch

        own = len(states) // num_processes()
        states = states[process_index() * own :][:own]
        torch.set_rng_state(torch.from_numpy(states[0]))
        if torch.cuda.is_available():
            torch.cuda.set_rng_state_all([torch.from_numpy(state) for state in states[1:]])


def _generator_states():
    if keras.backend.backend() != "torch":
        return []
    import torch

    # Dropout without a seed draws from these, not from Keras' seed generators.
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    states = [torch.get_rng_state(), *cuda]
    if num_processes() == 1:
        return states
    every = [None] * num_processes()
    torch.distributed.all_gather_object(every, states)
    return [state for one in every for state in one]
