"""Changes of an optimizer's variables in place: PyTorch would make a copy for every operation.

A step on few tokens is for a good part this: passes over 4 times as much memory as the model has.
"""

import keras
from keras import ops


def is_torch() -> bool:
    """Whether operations are not fused by a compiler."""
    return keras.backend.backend() == "torch"


def global_norm(tensors):
    """The Euclidean norm of all numbers of several tensors, in float32."""
    if is_torch():
        import torch

        norms = [torch.linalg.vector_norm(t.detach().to(torch.float32)) for t in tensors]
        return torch.linalg.vector_norm(torch.stack(norms))
    squares = [ops.sum(ops.square(ops.cast(tensor, "float32"))) for tensor in tensors]
    return ops.sqrt(sum(squares[1:], squares[0]))


class ClipsTogether:
    """Mixed into an optimizer: clipping by the global norm with fewer copies."""

    def _clip_gradients(self, grads):
        if not is_torch() or not self.global_clipnorm:
            return super()._clip_gradients(grads)
        most, norm = self.global_clipnorm, global_norm(grads)
        # NaN where the norm is not finite, as in Keras.
        scale = most * ops.minimum(1.0 / norm, 1.0 / most) + (norm - norm)
        return [grad * ops.cast(scale, grad.dtype) for grad in grads]


def move_average(optimizer, average, value, decay):
    """`average = decay * average + (1 - decay) * value`."""
    if is_torch():
        average.value.detach().lerp_(value.detach(), 1 - decay)
    else:
        optimizer.assign(average, decay * average + (1 - decay) * value)


def move_average_of_square(optimizer, average, value, decay):
    """`average = decay * average + (1 - decay) * value**2`."""
    if is_torch():
        value = value.detach()
        average.value.detach().mul_(decay).addcmul_(value, value, value=1 - decay)
    else:
        move_average(optimizer, average, ops.square(value), decay)


def adam_step(m, v, epsilon):
    """`m / (sqrt(v) + epsilon)` of two moments: a new tensor, which may be changed."""
    if is_torch():
        scale = v.value.detach().sqrt().add_(epsilon)
        return scale.reciprocal_().mul_(m.value.detach())
    return m / (ops.sqrt(v) + epsilon)


def add_share(step, share, variable):
    """`step + share * variable`; the step is given away."""
    return step.add_(variable.detach(), alpha=share) if is_torch() else step + share * variable


def take_off(optimizer, variable, step, rate):
    """`variable = variable - rate * step`; the step is given away."""
    if is_torch():
        variable.value.detach().sub_(step.detach().mul_(rate))
    else:
        optimizer.assign_sub(variable, rate * step)


def adamw_steps(variables, grads, moments, steps, rates, beta_1, beta_2, epsilon):
    """AdamW on a CPU under PyTorch, one pass over memory: what Keras' formulas give.

    PyTorch adds epsilon to the square root after it was corrected, Keras before.

    Args:
        variables: a list.
        grads: a list.
        moments: a list of pairs of variables.
        steps: number of this step, from 1.
        rates: the learning rate, and for each variable the rate of its decay.
        beta_1: of the optimizer.
        beta_2: of the optimizer.
        epsilon: of the optimizer.
    """
    import torch
    from torch.optim.adamw import adamw

    rate, decays = rates
    for decay in sorted(set(decays)):
        chosen = [i for i, its in enumerate(decays) if its == decay]
        with torch.no_grad():
            adamw(
                [variables[i].value.detach() for i in chosen],
                [ops.cast(grads[i].detach(), "float32").contiguous() for i in chosen],
                [moments[i][0].value.detach() for i in chosen],
                [moments[i][1].value.detach() for i in chosen],
                [],
                [torch.tensor(float(steps - 1)) for _ in chosen],  # it counts this step itself
                fused=True,
                amsgrad=False,
                beta1=beta_1,
                beta2=beta_2,
                lr=rate,
                weight_decay=decay,
                eps=epsilon / (1 - beta_2**steps) ** 0.5,
                maximize=False,
            )
