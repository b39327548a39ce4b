"""The products with kernels, and on PyTorch the gradients of those that many depths share.

There a product and its bias are one operation, which saves a pass over memory and the calls of a
Keras layer: a prediction of ALBERT base takes 0.86 of the time at 1 x 32 tokens, 0.93 at 8 x 128.

The gradient of a kernel W that depths 1 to L use is the sum of X_i' G_i, which is one product of
all X and all G, one above the other. Autograd makes L products instead and adds them up: of small
batches, where every product reads and writes as much as W has, that is most of a step.
"""

import contextlib
import threading

import keras

# Tokens of a batch up to which it pays: a step of ALBERT base on a CPU core takes 0.85 of the time
# at 32 tokens, 0.95 at 256.
_TOKENS = 256
_uses = threading.local()


@contextlib.contextmanager
def one_backward():
    """Inside, a forward pass is followed by one backward pass to all that is trainable, or none.

    `fit` trains so. Elsewhere a part of the gradients may be asked for, or gradients of gradients.
    """
    _uses.may_wait = True
    try:
        yield
    finally:
        _uses.may_wait = False


@contextlib.contextmanager
def shared_products(stack, x, whole):
    """Inside, `project` makes the gradient of a kernel at once, where that may be and pays.

    Args:
        stack: an `EncoderStack`.
        x: its input (B, S, H).
        whole: whether the output depends on all depths.
    """
    if not (whole and getattr(_uses, "may_wait", False) and _pays(stack, x)):
        yield
        return
    _uses.of_kernels = {}
    try:
        yield
    finally:
        _uses.of_kernels = None


def project(dense, x):
    """`dense(x)`, for a `keras.layers.Dense` of a sublayer."""
    if keras.backend.backend() != "torch" or not _is_plain(dense):
        return dense(x)
    from keras_albert.layers.torch_products import Product, Uses, product

    kernel, bias = dense.kernel.value, dense.bias.value
    of_kernels = getattr(_uses, "of_kernels", None)
    if of_kernels is None or not dense.trainable:
        return dense.activation(product(x, kernel, bias))
    uses = of_kernels.setdefault(id(dense), Uses())
    return dense.activation(Product.apply(x, kernel, bias, uses))


def _pays(stack, x):
    if keras.backend.backend() != "torch" or len(set(map(id, stack.blocks))) == len(stack.blocks):
        return False
    import torch

    # Keras' RematScope would compute a layer again when this context is over.
    recomputed = any(layer._remat_mode is not None for layer in stack._flatten_layers())
    return (
        x.shape[0] * x.shape[1] <= _TOKENS
        and not recomputed
        and torch.is_grad_enabled()
        and not torch.is_autocast_enabled(x.device.type)
        and not torch.compiler.is_compiling()
    )


def _is_plain(dense):
    """Whether a layer is its kernel and its bias, in float32, and nothing waits for its call."""
    return (
        dense.compute_dtype == "float32"
        and dense.quantization_mode is None
        and not dense.lora_enabled
        and dense._remat_mode is None
        and not dense._forward_hooks
        and not dense._forward_pre_hooks
    )
