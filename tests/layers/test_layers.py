"""Oracles: NumPy references in float64, invariants, and agreement of two code paths."""

import copy

import keras
import numpy as np
import pytest

from keras_albert import layers
from tests.conftest import to_numpy

B, S, H, N, I = 2, 7, 12, 3, 20  # noqa: E741 - the letters of the shape legend


@pytest.fixture
def x():
    return np.random.default_rng(1).normal(size=(B, S, H)).astype("float32")


def randomise(layer):
    """Replace zeros and ones of fresh layers, which would hide a bias that is left out."""
    rng = np.random.default_rng(7)
    for variable in layer.trainable_variables:
        variable.assign(rng.normal(scale=0.3, size=variable.shape))


def layer_norm(x, norm):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-12) * to_numpy(norm.gamma) + to_numpy(
        norm.beta
    )


def dense(x, layer):
    return x @ to_numpy(layer.kernel).astype("float64") + to_numpy(layer.bias)


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def reference_attention(layer, x, mask):
    heads = lambda t: t.reshape(*t.shape[:2], N, H // N).transpose(0, 2, 1, 3)  # noqa: E731
    q, k, v = (heads(dense(x, getattr(layer, name))) for name in ("query", "key", "value"))
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(H // N) + np.where(mask, 0, -1e30)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    context = (weights @ v).transpose(0, 2, 1, 3).reshape(x.shape)
    return layer_norm(x + dense(context, layer.output_dense), layer.layer_norm)


@pytest.mark.parametrize("rank", [2, 3])
def test_attention_equals_its_definition(x, rank):
    layer = layers.SelfAttention(N)
    mask = np.random.default_rng(2).random((B, S) if rank == 2 else (B, S, S)) < 0.7
    mask[..., 0] = True
    layer(x)
    randomise(layer)
    expected = reference_attention(
        layer, x.astype("float64"), mask[:, None, None] if rank == 2 else mask[:, None]
    )
    np.testing.assert_allclose(to_numpy(layer(x, attention_mask=mask)), expected, atol=1e-5)


def test_the_path_with_attention_dropout_equals_the_one_without(x):
    # A rate this small drops nothing, but is not 0: the path of training is taken.
    layer = layers.SelfAttention(N, attention_dropout=1e-12)
    mask = np.arange(S)[None] < np.array([[S], [3]])
    layer(x)
    randomise(layer)
    plain = to_numpy(layer(x, attention_mask=mask))
    dropped = to_numpy(layer(x, attention_mask=mask, training=True))
    np.testing.assert_allclose(dropped, plain, atol=1e-5)


def test_attention_dropout_and_hidden_dropout_are_separate_and_only_in_training(x):
    for arguments in ({"attention_dropout": 0.5}, {"hidden_dropout": 0.5}):
        layer = layers.SelfAttention(N, **arguments)
        layer(x)
        randomise(layer)
        still = to_numpy(layer(x))
        np.testing.assert_array_equal(to_numpy(layer(x)), still)
        assert np.abs(to_numpy(layer(x, training=True)) - still).max() > 1e-2


def test_attention_dropout_drops_probabilities_and_scales_the_rest(x):
    layer = layers.SelfAttention(N, attention_dropout=0.25)
    layer(x)
    ones = keras.ops.ones((512, S, N, H // N))
    only_first = np.zeros((512, 1, 1, S), bool)
    only_first[..., 0] = True
    # With one key there is one probability, 1: kept and scaled, or dropped.
    context = to_numpy(layer._attend(ones, ones, ones, only_first, training=True))
    np.testing.assert_allclose(np.unique(context), [0.0, 1 / 0.75], rtol=1e-6)
    share, deviation = (context[..., 0] > 0).mean(), (0.25 * 0.75 / (512 * S * N)) ** 0.5
    assert abs(share - 0.75) < 5 * deviation


@pytest.mark.parametrize("activation", ["gelu_tanh", "gelu", "relu"])
def test_feed_forward_equals_its_definition(x, activation):
    from scipy.special import erf

    layer = layers.FeedForward(I, activation=activation)
    layer(x)
    randomise(layer)
    inner = dense(x.astype("float64"), layer.intermediate_dense)
    inner = {
        "gelu_tanh": 0.5
        * inner
        * (1 + np.tanh(np.sqrt(2 / np.pi) * (inner + 0.044715 * inner**3))),
        "gelu": 0.5 * inner * (1 + erf(inner / np.sqrt(2))),
        "relu": np.maximum(inner, 0),
    }[activation]
    expected = layer_norm(x + dense(inner, layer.output_dense), layer.layer_norm)
    np.testing.assert_allclose(to_numpy(layer(x)), expected, atol=1e-5)


@pytest.mark.parametrize("projected", [True, False])
def test_embedding_equals_its_definition(projected):
    layer = layers.FactorizedEmbedding(30, 6, 6, max_sequence_length=9, project=projected)
    token_ids = np.array([[3, 29, 0, 7], [1, 1, 2, 8]])
    segment_ids = np.array([[0, 0, 1, 1], [0, 1, 1, 1]])
    layer(token_ids, segment_ids=segment_ids)
    randomise(layer)
    tables = [
        to_numpy(table.embeddings)
        for table in (layer.token_embedding, layer.position_embedding, layer.segment_embedding)
    ]
    expected = tables[0][token_ids] + tables[1][np.arange(4)] + tables[2][segment_ids]
    expected = layer_norm(expected.astype("float64"), layer.layer_norm)
    if projected:
        expected = dense(expected, layer.projection)
    output = to_numpy(layer(token_ids, segment_ids=segment_ids))
    np.testing.assert_allclose(output, expected, atol=1e-5)


def test_masked_lm_head_equals_its_definition_at_the_positions_asked(x):
    table = keras.layers.ReversibleEmbedding(30, 4)
    head = layers.MaskedLMHead(table)
    positions = np.array([[1, 6, 0], [2, 2, 5]])
    head(x, mask_positions=positions)
    randomise(head)
    gathered = np.take_along_axis(x.astype("float64"), positions[:, :, None], 1)
    inner = dense(gathered, head.dense)
    inner = gelu_tanh(inner)
    expected = layer_norm(inner, head.layer_norm) @ to_numpy(table.embeddings).T
    expected = expected + to_numpy(head.bias)
    np.testing.assert_allclose(to_numpy(head(x, mask_positions=positions)), expected, atol=1e-5)


def test_pooler_and_sentence_head_equal_their_definitions(x):
    pooler, head = layers.Pooler(), layers.SentenceOrderHead()
    head(pooler(x))
    randomise(pooler)
    randomise(head)
    expected = np.tanh(dense(x[:, 0].astype("float64"), pooler.dense))
    np.testing.assert_allclose(to_numpy(pooler(x)), expected, atol=1e-5)
    np.testing.assert_allclose(to_numpy(head(pooler(x))), dense(expected, head.dense), atol=1e-5)


def stack(**arguments):
    return layers.EncoderStack(4, N, I, **arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        {"sharing": "all"},
        {"sharing": "attention"},
        {"sharing": "ffn"},
        {"sharing": "none"},
        {"sharing": "all", "num_groups": 2, "num_inner_repetitions": 2},
    ],
)
def test_stack_applies_its_plan_one_sublayer_after_the_other(x, arguments):
    encoder = stack(**arguments)
    encoder(x)
    randomise(encoder)
    mask = np.arange(S)[None] < np.array([[S], [4]])
    outputs = encoder(x, attention_mask=mask, return_all_layers=True)
    assert len(outputs) == 4
    step, expected = 0, x
    for depth in range(4):
        for _ in range(arguments.get("num_inner_repetitions", 1)):
            attention, feed_forward = encoder.plan[step]
            expected = getattr(encoder, f"attention_{attention}")(expected, attention_mask=mask)
            expected = getattr(encoder, f"feed_forward_{feed_forward}")(expected)
            step += 1
        np.testing.assert_allclose(to_numpy(outputs[depth]), to_numpy(expected), atol=1e-6)
    last = encoder(x, attention_mask=mask)
    np.testing.assert_array_equal(to_numpy(last), to_numpy(outputs[-1]))


@pytest.mark.parametrize(("sharing", "rank", "remat"), [("all", 2, True), ("none", 3, False)])
def test_what_is_asked_at_positions_is_what_stands_there(x, sharing, rank, remat):
    """Outputs, and in training the weights after a step, whichever tokens the last block leaves."""
    positions = np.array([[0, 3], [5, 5]])
    mask = np.random.default_rng(2).random((B, S) if rank == 2 else (B, S, S)) < 0.7
    mask[..., 0] = True
    rows = np.arange(B)[:, None]

    def trained(remat, asks):
        keras.utils.set_random_seed(4)
        encoder = stack(sharing=sharing, remat=remat, initializer_range=0.3)
        inputs = keras.Input((S, H)), keras.Input(mask.shape[1:], dtype="bool")
        places = keras.Input((2,), dtype="int32")
        if asks:
            outputs = encoder(inputs[0], attention_mask=inputs[1], positions=places)
        else:
            outputs = encoder(inputs[0], attention_mask=inputs[1])
            outputs = layers.attention.take_tokens(outputs, places)
        assert outputs.shape == (None, 2, H)
        model = keras.Model([*inputs, places], outputs)
        model.compile(keras.optimizers.SGD(1.0), "mse")
        model.train_on_batch([x, mask, positions], np.ones((B, 2, H), "float32"))
        return encoder, [to_numpy(weight) for weight in model.weights]

    encoder, expected = trained(False, asks=False)
    whole = to_numpy(encoder(x, attention_mask=mask))
    some = to_numpy(encoder(x, attention_mask=mask, positions=positions))
    np.testing.assert_allclose(some, whole[rows, positions], atol=1e-5)
    for one, other in zip(expected, trained(remat, asks=True)[1], strict=True):
        np.testing.assert_allclose(other, one, atol=1e-5)


def test_distinct_sublayers_start_from_different_values(x):
    encoder = stack(sharing="none")
    encoder(x)
    kernels = [to_numpy(getattr(encoder, f"attention_{i}").query.kernel) for i in range(4)]
    kernels += [
        to_numpy(encoder.attention_0.key.kernel),
        to_numpy(encoder.attention_0.value.kernel),
    ]
    for i, one in enumerate(kernels):
        for other in kernels[:i]:
            assert np.abs(one - other).max() > 1e-3


def test_initial_values_are_truncated_normals_and_zero_biases(x):
    layer = layers.FeedForward(4000)
    layer(np.zeros((1, 1, 64), "float32"))
    kernel = to_numpy(layer.intermediate_dense.kernel)
    # Keras' TruncatedNormal cuts at two deviations and does not rescale, as TensorFlow 1; on torch
    # it lets 4 values in a million through.
    assert (np.abs(kernel) > 0.04 + 1e-6).mean() < 3e-5
    assert abs(kernel.std() - 0.02 * 0.8796) < 2e-4
    assert not to_numpy(layer.intermediate_dense.bias).any()


ALL_LAYERS = {
    "attention": lambda: layers.SelfAttention(N, hidden_dropout=0.1, attention_dropout=0.2),
    "feed_forward": lambda: layers.FeedForward(I, activation="gelu", hidden_dropout=0.1),
    "transformer_encoder": lambda: layers.TransformerEncoder(
        layers.SelfAttention(N), layers.FeedForward(I)
    ),
    "stack_all": lambda: stack(sharing="all", num_groups=2),
    "stack_attention": lambda: stack(sharing="attention"),
    "stack_ffn": lambda: stack(sharing="ffn"),
    "stack_none": lambda: stack(sharing="none"),
    "pooler": layers.Pooler,
}


def test_the_layers_with_integer_inputs_serialise(tmp_path):
    ids, positions = keras.Input((4,), dtype="int32"), keras.Input((2,), dtype="int32")
    x = layers.FactorizedEmbedding(30, 6, H, max_sequence_length=9)(ids, segment_ids=ids)
    table = keras.layers.ReversibleEmbedding(20, 6)
    logits = layers.MaskedLMHead(table)(x, mask_positions=positions)
    sentence = layers.SentenceOrderHead()(layers.Pooler()(x))
    model = keras.Model([ids, positions], [logits, sentence])
    randomise(model)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    inputs = [np.array([[1, 0, 1, 1], [0, 0, 1, 0]]), np.array([[1, 3], [0, 2]])]
    for one, other in zip(loaded(inputs), model(inputs), strict=True):
        np.testing.assert_array_equal(to_numpy(one), to_numpy(other))
    assert loaded.count_params() == model.count_params()


@pytest.mark.parametrize("name", ALL_LAYERS)
def test_every_layer_serialises_inside_a_saved_model(x, tmp_path, name):
    inputs = keras.Input((S, H))
    model = keras.Model(inputs, ALL_LAYERS[name]()(inputs))
    randomise(model)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.count_params() == model.count_params()
    np.testing.assert_array_equal(to_numpy(loaded(x)), to_numpy(model(x)))
    configs = [copy.deepcopy(m.layers[1].get_config()) for m in (loaded, model)]
    for config in configs:
        for value in config.values():
            if isinstance(value, dict):
                value.pop("build_config", None)  # a sublayer's, once it is built
    assert configs[0] == configs[1]


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision_stays_finite_and_near_float32(policy):
    # Large inputs, where float16 sums of squares would overflow, and a row without any key.
    x = np.random.default_rng(3).normal(scale=300, size=(B, S, H)).astype("float32")
    mask = np.ones((B, S), bool)
    mask[1] = False
    exact = layers.EncoderStack(2, N, I, attention_dropout=1e-12)
    exact(x)
    mixed = layers.EncoderStack(2, N, I, attention_dropout=1e-12, dtype=policy)
    mixed(x)
    mixed.set_weights(exact.get_weights())
    for training in (False, True):
        expected = to_numpy(exact(x, attention_mask=mask, training=training))
        output = mixed(x, attention_mask=mask, training=training)
        assert keras.backend.standardize_dtype(output.dtype) == policy.removeprefix("mixed_")
        output = to_numpy(keras.ops.cast(output, "float32"))
        assert np.isfinite(output).all()
        np.testing.assert_allclose(output, expected, atol=0.06)


@pytest.mark.parametrize("rate", [0.0, 1e-12])
def test_attention_scores_do_not_overflow_in_float16(rate):
    # q.k reaches 3e5 here, beyond float16's 65504; scaled by 1/sqrt(D) it does not.
    x = np.random.default_rng(3).normal(size=(2, 5, 64)).astype("float32")
    outputs = {}
    for policy in ("float32", "mixed_float16"):
        layer = layers.SelfAttention(1, attention_dropout=rate, dtype=policy)
        layer(x)
        layer.query.kernel.assign(70 * np.eye(64))
        layer.key.kernel.assign(70 * np.eye(64))
        layer.value.kernel.assign(np.eye(64))
        layer.output_dense.kernel.assign(np.eye(64))
        output = layer(x, training=rate > 0)
        outputs[policy] = to_numpy(keras.ops.cast(output, "float32"))
    np.testing.assert_allclose(outputs["mixed_float16"], outputs["float32"], atol=0.02)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: layers.SelfAttention(0), "`num_heads` of SelfAttention must be an integer"),
        (lambda: layers.SelfAttention(5).build((1, 2, 12)), "must divide the hidden size"),
        (lambda: layers.SelfAttention(2, hidden_dropout=1.0), "`hidden_dropout` .*dropout rate"),
        (lambda: layers.SelfAttention(2, attention_dropout=-1), "`attention_dropout` .*rate"),
        (lambda: layers.FeedForward(2.5), "`intermediate_dim` of FeedForward"),
        (lambda: layers.FeedForward(4, activation="golu"), "`activation` must be 'gelu_tanh'"),
        (lambda: layers.FeedForward(4, hidden_dropout="a"), "`hidden_dropout` .*rate"),
        (lambda: layers.FactorizedEmbedding(0, 2, 2), "`vocabulary_size` of FactorizedEmbedding"),
        (lambda: layers.FactorizedEmbedding(9, 2, 4, project=False), "Without a projection"),
        (lambda: layers.FactorizedEmbedding(9, 2, 2, dropout=2), "`dropout` .*rate"),
        (
            lambda: layers.FactorizedEmbedding(9, 2, 2, max_sequence_length=3)(
                np.zeros((1, 4), int), segment_ids=np.zeros((1, 4), int)
            ),
            "input length 4, max_sequence_length=3",
        ),
        (lambda: layers.EncoderStack(4, 2, 8, sharing="x"), "`sharing` must be one of"),
        (
            lambda: stack()(
                np.zeros((B, S, H)), positions=np.zeros((B, 1), int), return_all_layers=True
            ),
            "either the tokens at `positions`, or every token",
        ),
    ],
)
def test_wrong_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()
