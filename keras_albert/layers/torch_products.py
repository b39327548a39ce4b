"""Products of tokens with a kernel, and one whose kernel gets its gradient once for all uses.

See `shared_products`. Shapes: x (..., I), kernel (I, O), bias (O,).
"""

import torch


def product(x, kernel, bias):
    """`x @ kernel + bias`, (..., O)."""
    return torch.addmm(bias, _rows(x), kernel).reshape(*x.shape[:-1], kernel.shape[1])


class Uses:
    """The uses of one kernel in a forward pass, and what their gradients have brought so far."""

    def __init__(self):
        self.count, self.missing = 0, 0
        self.inputs, self.gradients = [], []


class Product(torch.autograd.Function):
    """`product`, whose kernel and bias get one gradient for all `uses`."""

    @staticmethod
    def forward(ctx, x, kernel, bias, uses):
        ctx.save_for_backward(x, kernel)
        ctx.uses = uses
        uses.count += 1
        uses.missing += 1
        return product(x, kernel, bias)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        x, kernel = ctx.saved_tensors
        uses, gradient = ctx.uses, _rows(gradient)
        uses.inputs.append(_rows(x))
        uses.gradients.append(gradient)
        uses.missing -= 1
        of_x = (gradient @ kernel.T).reshape(x.shape)
        if uses.missing:
            return of_x, None, None, None
        inputs, gradients = torch.cat(uses.inputs), torch.cat(uses.gradients)
        uses.missing, uses.inputs, uses.gradients = uses.count, [], []  # for another backward pass
        return of_x, inputs.T @ gradients, gradients.sum(0), None


def _rows(x):
    return x.reshape(-1, x.shape[-1])
