"""Changes of an optimizer's variables in place: PyTorch would make a copy for every operation."""

import keras
from keras import ops


def move_average(optimizer, average, value, decay):
    """`average = decay * average + (1 - decay) * value`."""
    if keras.backend.backend() == "torch":
        average.value.detach().lerp_(value.detach(), 1 - decay)
    else:
        optimizer.assign(average, decay * average + (1 - decay) * value)


def adam_step(m, v, epsilon):
    """`m / (sqrt(v) + epsilon)` of two moments: a new tensor, which may be changed."""
    if keras.backend.backend() == "torch":
        scale = v.value.detach().sqrt().add_(epsilon)
        return scale.reciprocal_().mul_(m.value.detach())
    return m / (ops.sqrt(v) + epsilon)


def take_off(optimizer, variable, step, rate):
    """`variable = variable - rate * step`; the step is given away."""
    if keras.backend.backend() == "torch":
        variable.value.detach().sub_(step.detach().mul_(rate))
    else:
        optimizer.assign_sub(variable, rate * step)
