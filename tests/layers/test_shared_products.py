"""Oracle: autograd's own products, one for each depth."""

import keras
import numpy as np
import pytest

from keras_albert.layers import shared_products
from keras_albert.layers.shared_products import one_backward, project
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


def dense(dtype="float32"):
    layer = keras.layers.Dense(5, activation="gelu", bias_initializer="normal", dtype=dtype)
    layer.build((None, 3, 4))
    return layer


def test_a_product_is_what_the_layer_computes():
    layer, x = dense(), torch.rand(2, 3, 4, requires_grad=True)
    inputs = [x, layer.kernel.value, layer.bias.value]
    found = []
    for output in (project(layer, x), layer(x)):
        found.append([output.detach(), *torch.autograd.grad(output.square().sum(), inputs)])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-6)


def test_a_layer_that_does_more_than_a_product_is_called():
    hooked, heard = dense(), []
    hooked.register_forward_hook(lambda *_: heard.append("after"))
    hooked.register_forward_pre_hook(lambda *_: heard.append("before"))
    adapted = dense()
    adapted.enable_lora(2)
    adapted.lora_kernel_b.assign(keras.ops.ones_like(adapted.lora_kernel_b))
    quantized = dense()
    quantized.quantize("int8")
    x = torch.rand(2, 3, 4)
    project(hooked, x)
    assert heard == ["before", "after"]
    for layer in (adapted, quantized, dense("float16"), dense("mixed_bfloat16")):
        output, expected = project(layer, x), layer(x)
        assert output.dtype == expected.dtype
        torch.testing.assert_close(output, expected, atol=0, rtol=0)


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
