"""Oracles: the released archives' layout, and the same weights in another format."""

import json
import shutil
import tarfile

import numpy as np
import pytest

import keras_albert
from keras_albert.checkpoints import load_google_checkpoint, to_google
from keras_albert.checkpoints.names import GOOGLE_ALBERT, TASK_HEADS, expand
from tests.checkpoints.conftest import (
    WORDS,
    assert_same_outputs,
    assert_same_weights,
    load,
    make,
    make_bert,
)
from tests.conftest import to_numpy

pytestmark = pytest.mark.usefixtures("tensorflow")


def variables(prefix):
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(prefix))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def save(prefix, tensors):
    import tensorflow as tf

    prefix.parent.mkdir(parents=True, exist_ok=True)
    names = list(tensors)
    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        tensors=[tensors[name] for name in names],
    )


def with_optimizer(tensors):
    """What training leaves in a checkpoint."""
    slots = {f"{n}/{s}": np.ones_like(t) for n, t in tensors.items() for s in ("adam_m", "adam_v")}
    return {**tensors, **slots, "global_step": np.int64(7), "bert/lamb_m": np.ones(2, "float32")}


@pytest.fixture(scope="module")
def albert(proto):
    tokenizer = keras_albert.AlbertTokenizer(proto)
    preprocessor = keras_albert.AlbertPretrainerPreprocessor(tokenizer, sequence_length=16)
    return make(preprocessor=preprocessor, vocabulary_size=80, max_sequence_length=30)


def test_the_released_archive_loads_by_one_line(albert, tmp_path, shared_data):
    written = to_google(albert, tmp_path / "written" / "model.ckpt-best")
    tensors = variables(written)
    recorded = json.loads((shared_data / "oracle/google_albert/variables.json").read_text())
    assert set(tensors) == set(recorded) and len(tensors) == 32

    folder = tmp_path / "albert_base_v2"
    save(folder / "model.ckpt-best", with_optimizer(tensors))
    (folder / "model.ckpt-best.meta").write_bytes(b"a graph, which is not read")
    (folder / "30k-clean.vocab").write_text("not read")
    (folder / "30k-clean.model").write_bytes(albert.preprocessor.tokenizer.proto)
    config = json.loads((tmp_path / "written" / "albert_config.json").read_text())
    # As released, with keys of the original's that mean nothing here.
    config |= {"net_structure_type": 0, "gap_size": 0, "num_memory_blocks": 0}
    config |= {"down_scale_factor": 1, "hidden_dropout_prob": 0}
    (folder / "albert_config.json").write_text(json.dumps(config))
    archive = tmp_path / "albert_base_v2.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, "albert_base")

    for source in (archive, folder, folder / "model.ckpt-best", folder / "model.ckpt-best.index"):
        model = load(source)
        assert_same_weights(model, albert)
        assert model.backbone.activation is albert.backbone.activation
        vocabulary = model.preprocessor.tokenizer.get_vocabulary()
        assert vocabulary == albert.preprocessor.tokenizer.get_vocabulary()
    assert len(keras_albert.checkpoints.report(archive).dropped) == 2 * 32 + 2

    # The configurations of v2 were published with the dropout of v1.
    config["hidden_dropout_prob"] = 0.1
    (folder / "albert_config.json").write_text(json.dumps(config))
    with pytest.warns(UserWarning, match="dropout 0.1 and 0.0.*ALBERT v2 was trained without"):
        model = load(folder, dtype="bfloat16")
    assert model.backbone.hidden_dropout == 0.1
    assert model.backbone.token_embedding.variable_dtype == "bfloat16"


@pytest.mark.parametrize("name", ["uncased_L-4_H-12", "cased_L-4_H-12"])
def test_bert(tmp_path, name):
    model = make_bert(activation="gelu_tanh", hidden_dropout=0.1, attention_dropout=0.2)
    tokenizer = keras_albert.BertTokenizer(WORDS)
    to_google(model, tmp_path / name / "bert_model.ckpt", tokenizer=tokenizer)
    assert "bert/encoder/layer_3/attention/output/LayerNorm/gamma" in variables(
        tmp_path / name / "bert_model.ckpt"
    )
    again = load(tmp_path / name)
    assert_same_weights(again, model)
    assert_same_outputs(again, model, atol=0)
    # As BERT was released: a zip of the folder.
    released = shutil.make_archive(tmp_path / name, "zip", tmp_path, name)
    again = load(released)
    assert_same_weights(again, model)
    assert again.preprocessor.tokenizer.lowercase == name.startswith("uncased")
    assert again.backbone.hidden_dropout == 0.1 and again.backbone.attention_dropout == 0.2


def test_groups_and_repetitions(tmp_path):
    model = make(num_groups=2, num_inner_repetitions=2)
    to_google(model, tmp_path / "out" / "model.ckpt")
    names = set(variables(tmp_path / "out" / "model.ckpt"))
    assert "bert/encoder/transformer/group_1/inner_group_1/LayerNorm_1/beta" in names
    again = load(tmp_path / "out")
    assert_same_weights(again, model)


def test_tf_hub_without_a_configuration(tmp_path):
    model = make()
    tensors = variables(to_google(model, tmp_path / "written" / "model.ckpt"))
    folder = tmp_path / "hub"
    renamed = {f"module/{name}": value for name, value in tensors.items()}
    save(folder / "variables" / "variables", renamed)
    with pytest.raises(ValueError, match="pass `num_layers` and `num_heads`.*hidden size 12"):
        load(folder)
    with pytest.warns(UserWarning, match="no albert_config.json"):
        again = load(folder, num_layers=4, num_heads=3)
    assert_same_outputs(again, model, atol=0)
    (folder / "assets").mkdir()
    config = (tmp_path / "written" / "albert_config.json").read_text()
    (folder / "assets" / "albert_config.json").write_text(config)
    assert_same_outputs(load(folder), model, atol=0)


def test_what_a_checkpoint_lacks_or_has_too_many_is_named(tmp_path):
    model = make()
    tensors = variables(to_google(model, tmp_path / "in" / "model.ckpt"))
    config = (tmp_path / "in" / "albert_config.json").read_text()

    def written(name, tensors):
        save(tmp_path / name / "model.ckpt", tensors)
        (tmp_path / name / "albert_config.json").write_text(config)
        return tmp_path / name

    bare = written("bare", {n: t for n, t in tensors.items() if not n.startswith("cls/")})
    with pytest.warns(UserWarning, match="newly initialised: masked_lm_head, sentence_head$"):
        load(bare, strict=False)
    with pytest.raises(ValueError, match="strict=True.*masked_lm_head, sentence_head"):
        load(bare)
    keras_albert.AlbertBackbone.from_preset(bare, strict=True)

    head = {"output_weights": np.ones((3, 12), "float32"), "output_bias": np.ones(3, "float32")}
    tuned = written("tuned", {**tensors, **head})
    with pytest.warns(UserWarning, match="not used: output_bias, output_weights"):
        load(tuned, strict=False)
    with pytest.raises(ValueError, match="strict=True.*not used: output_bias, output_weights"):
        load(tuned)

    broken = dict(tensors)
    broken.pop("cls/predictions/transform/dense/bias")
    with pytest.raises(ValueError, match=r"head, whole.*\['cls/predictions/transform/dense/bias'"):
        load(written("broken", broken), strict=False)
    name = "bert/encoder/transformer/group_0/inner_group_0/ffn_1/intermediate/dense/kernel"
    other = {**tensors, name: np.ones((12, 18), "float32")}
    with pytest.raises(ValueError, match=r"dense/kernel' of shape \(12, 18\).*asks for \(12, 19\)"):
        load(written("other", other))


def test_other_layouts_are_refused_with_the_reason(tmp_path):
    zh = {"bert/embeddings/word_embeddings_2": np.ones((4, 8), "float32")}
    zh["bert/encoder/layer_shared/output/dense/kernel"] = np.ones((4, 8), "float32")
    save(tmp_path / "zh" / "model.ckpt", zh)
    with pytest.raises(ValueError, match="albert_zh's layout"):
        load(tmp_path / "zh")
    save(tmp_path / "other" / "model.ckpt", {"w": np.ones(3, "float32")})
    with pytest.raises(ValueError, match=r"must be Google's ALBERT or BERT.*\['w'\]"):
        load(tmp_path / "other")
    save(tmp_path / "other" / "model.ckpt-2", {"w": np.ones(3, "float32")})
    with pytest.raises(ValueError, match=r"does not say which.*ckpt-2.index', "):
        load(tmp_path / "other")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"activation": "gelu"}, "activations.*'gelu'"),
        ({"embedding_dim": 12, "project_embeddings": True}, "projects embeddings only where"),
        ({"layer_norm_epsilon": 1e-5}, "epsilon at 1e-12"),
        ({"num_layers": 22, "num_groups": 22}, r"other groups at depths \[15\]"),
    ],
)
def test_what_the_original_cannot_make_is_not_written(tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        to_google(make(**arguments), tmp_path / "out" / "model.ckpt")
    assert not list(tmp_path.iterdir())


def test_into_a_model_that_there_is(albert, tmp_path):
    prefix = to_google(albert, tmp_path / "in" / "model.ckpt")
    sizes = {"vocabulary_size": 80, "max_sequence_length": 30}
    model = make(**sizes)
    load_google_checkpoint(model, prefix)
    assert_same_weights(model, albert)
    for other, message in (
        (make(**sizes, sharing="none"), "nothing for these weights.*attention_1"),
        (make(**sizes, objective="none"), "no 'sentence_head"),
        (make(**sizes, num_groups=2), "no variable 'bert.*group_1/inner_group_0/attention_1"),
        (make(**{**sizes, "intermediate_dim": 5}), r"of shape \(12, 19\).*asks for \(12, 5\)"),
    ):
        before = [to_numpy(weight.value).copy() for weight in other.weights]
        with pytest.raises(ValueError, match=message):
            load_google_checkpoint(other, prefix)
        for weight, value in zip(other.weights, before, strict=True):
            np.testing.assert_array_equal(to_numpy(weight.value), value)
    with pytest.raises(ValueError, match="without its `.index` ending"):
        load_google_checkpoint(model, tmp_path / "nothing")


def write_model_garden(google, family, path):
    """The objects of a Model Garden pretrainer, from the variables of Google's layout.

    Names and shapes are those that tf-models-official 2.20 writes of `BertPretrainerV2`.
    """
    import tensorflow as tf

    def node(**parts):
        return tf.train.Checkpoint(**parts)

    def dense(name, *shape):
        kernel, bias = google[f"{name}/kernel"], google[f"{name}/bias"]
        heads = shape[1:] if shape[:1] == (12,) else bias.shape
        return node(
            kernel=tf.Variable(kernel.reshape(shape or kernel.shape)),
            bias=tf.Variable(bias.reshape(heads)),
        )

    def norm(name):
        gamma, beta = google[f"{name}/gamma"], google[f"{name}/beta"]
        return node(gamma=tf.Variable(gamma), beta=tf.Variable(beta))

    def table(name):
        return node(embeddings=tf.Variable(google[f"bert/embeddings/{name}_embeddings"]))

    def block(prefix, attention, attention_norm, intermediate, output, output_norm):
        layer = node(
            _query_dense=dense(f"{prefix}/{attention}/self/query", 12, 3, 4),
            _key_dense=dense(f"{prefix}/{attention}/self/key", 12, 3, 4),
            _value_dense=dense(f"{prefix}/{attention}/self/value", 12, 3, 4),
            _output_dense=dense(f"{prefix}/{attention}/output/dense", 3, 4, 12),
        )
        return node(
            _attention_layer=layer,
            _attention_layer_norm=norm(f"{prefix}/{attention_norm}"),
            _intermediate_dense=dense(f"{prefix}/{intermediate}"),
            _output_dense=dense(f"{prefix}/{output}"),
            _output_layer_norm=norm(f"{prefix}/{output_norm}"),
        )

    layers = [table(name) for name in ("word", "position", "token_type")]
    layers.append(norm("bert/embeddings/LayerNorm"))
    if family == "albert":
        layers.append(dense("bert/encoder/embedding_hidden_mapping_in"))
        group = "bert/encoder/transformer/group_0/inner_group_0"
        ffn = "ffn_1/intermediate"
        names = ("attention_1", "LayerNorm", f"{ffn}/dense", f"{ffn}/output/dense", "LayerNorm_1")
        layers.append(block(group, *names))
    else:
        names = ("attention", "attention/output/LayerNorm", "intermediate/dense")
        names += ("output/dense", "output/LayerNorm")
        layers += [block(f"bert/encoder/layer_{i}", *names) for i in range(2)]
    layers.append(dense("bert/pooler/dense"))
    encoder = node(**{f"layer_with_weights-{i}": layer for i, layer in enumerate(layers)})
    node(encoder=encoder).write(str(path / "encoder.ckpt"))
    transform = "cls/predictions/transform"
    bias = tf.Variable(google["cls/predictions/output_bias"])
    head = node(
        dense=dense(f"{transform}/dense"),
        layer_norm=norm(f"{transform}/LayerNorm"),
        embedding_table=layers[0].embeddings,
        **{"output_bias/bias": bias},  # stored as `output_bias.Sbias`
    )
    node(encoder=encoder, masked_lm=head).write(str(path / "pretrained.ckpt"))
    node(model=node(encoder_network=encoder, masked_lm=head)).write(str(path / "whole.ckpt"))


@pytest.mark.parametrize("family", ["albert", "bert"])
def test_model_garden(tmp_path, family):
    bert = {"activation": "gelu_tanh", "num_layers": 2}
    model = make_bert(**bert) if family == "bert" else make()
    prefix = to_google(model, tmp_path / "google" / "model.ckpt")
    folder = tmp_path / "garden"
    folder.mkdir()
    write_model_garden(variables(prefix), family, folder)
    config = f"{family}_config.json"
    with pytest.raises(ValueError, match=f"must have `{config}` beside it"):
        keras_albert.AlbertBackbone.from_preset(folder / "encoder.ckpt")
    shutil.copy(tmp_path / "google" / config, folder)
    for name in ("encoder", "pretrained", "whole"):
        backbone = keras_albert.AlbertBackbone.from_preset(folder / f"{name}.ckpt", strict=True)
        assert_same_weights(backbone, model.backbone)
        assert keras_albert.checkpoints.report(folder / f"{name}.ckpt").format == "model garden"
    for name in ("pretrained", "whole"):
        with pytest.warns(UserWarning, match="newly initialised: sentence_head$"):
            again = load(folder / f"{name}.ckpt", strict=False)
        assert_same_weights(again.masked_lm_head, model.masked_lm_head)


def test_the_table_names_each_variable_of_a_pretrainer_once():
    for arguments in ({}, {"num_groups": 2, "num_inner_repetitions": 2}, {"embedding_dim": 12}):
        model = make(**arguments)
        rows = expand(GOOGLE_ALBERT, model.backbone.get_config())
        rows = [row for row in rows if row.part not in TASK_HEADS]
        assert len({row.ours for row in rows}) == len({row.theirs for row in rows}) == len(rows)
        assert len(rows) == len(model.weights)
