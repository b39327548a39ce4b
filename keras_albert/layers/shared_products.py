"""The products with kernels that many depths share, whose gradients are made at once (PyTorch).

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
def shared_products(blocks, x, whole):
    """Inside, `project` makes the gradient of a kernel at once, where that pays.

    Args:
        blocks: of the depths to come.
        x: their input (B, S, H).
        whole: whether a gradient will be asked of all uses of a kernel, or of none.
    """
    if not (whole and _pays(blocks, x)):
        yield
        return
    _uses.of_kernels = {}
    try:
        yield
    finally:
        _uses.of_kernels = None


def project(dense, x):
    """`dense(x)`, for a `keras.layers.Dense` of a sublayer."""
    of_kernels = getattr(_uses, "of_kernels", None)
    if of_kernels is None or not _is_plain(dense):
        return dense(x)
    from keras_albert.layers.torch_products import Product, Uses

    uses = of_kernels.setdefault(id(dense), Uses())
    kernel, bias = dense.kernel.value, dense.bias.value
    return dense.activation(Product.apply(x, kernel, bias, uses))


def _pays(blocks, x):
    if keras.backend.backend() != "torch" or len(set(map(id, blocks))) == len(blocks):
        return False
    import torch

    is_small = x.shape[0] * x.shape[1] <= _TOKENS
    return is_small and torch.is_grad_enabled() and not torch.compiler.is_compiling()


def _is_plain(dense):
    """Whether a layer is its kernel and its bias, in float32, and learns them."""
    return (
        dense.trainable
        and dense.compute_dtype == "float32"
        and dense.quantization_mode is None
        and not dense.lora_enabled
    )
