"""Oracle: autograd's own products, one for each depth."""

import keras
import numpy as np
import pytest

from keras_albert.layers import shared_products
from keras_albert.layers.shared_products import one_backward
from tests.layers.test_remat import assert_same, make, train

if keras.backend.backend() != "torch":
    pytest.skip("products of PyTorch", allow_module_level=True)
torch = pytest.importorskip("torch")


@pytest.fixture
def made(monkeypatch):
    """The products that were made so."""
    from keras_albert.layers import torch_products

    kernels, apply = [], torch_products.Product.apply
    monkeypatch.setattr(
        torch_products.Product, "apply", lambda x, *rest: kernels.append(rest[0]) or apply(x, *rest)
    )
    return kernels


@pytest.mark.parametrize("architecture", [{"num_layers": 4}, {"num_groups": 2, "num_layers": 4}])
def test_steps_are_those_of_autograd(monkeypatch, made, architecture):
    """With dropout, at the positions of pretraining; gradients are what a rate of 1 takes off."""
    found = []
    for tokens in (0, 64):
        monkeypatch.setattr(shared_products, "_TOKENS", tokens)
        found.append(train(make(False, **architecture)))
        assert bool(made) == bool(tokens)
    assert len(made) == 2 * 6 * 4  # steps, kernels, depths
    assert len({id(kernel) for kernel in made}) >= 6 * architecture.get("num_groups", 1)
    assert_same(*found, 1e-5)


def test_a_graph_may_be_gone_through_again(made):
    model = make(False)
    x = torch.rand(2, 4, 12, requires_grad=True)
    with one_backward():
        output = model.backbone.encoder(x, training=True).square().sum()
    kernel = model.backbone.encoder.attention_0.query.kernel.value
    first, second = (torch.autograd.grad(output, [x, kernel], retain_graph=True) for _ in range(2))
    assert made
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_otherwise_layers_are_called_as_they_are(made):
    """Frozen, adapted or recomputed kernels, every depth's output, inference, and other loops."""
    x = torch.rand(2, 4, 12)
    encoder = make(False).backbone.encoder
    encoder(x, training=True)  # whose gradients may be asked for in parts
    with one_backward():
        encoder(x, training=False)
        encoder(x, training=True, return_all_layers=True)[0].sum().backward()
        assert encoder.attention_0.query.kernel.value.grad is not None
        make(False, sharing="none").backbone.encoder(x, training=True)
        make(True).backbone.encoder(x, training=True)
        with torch.no_grad():
            encoder(x, training=True)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            encoder(x, training=True)
        adapted = make(False).backbone
        adapted.enable_lora(2)
        adapted.encoder(x, training=True)
        make(False, "mixed_bfloat16").backbone.encoder(x, training=True)
        with keras.RematScope(mode="full"):
            recomputed = make(False).backbone.encoder
        recomputed(x, training=True).sum().backward()
        assert not made
        encoder(x, training=True)
        assert made
