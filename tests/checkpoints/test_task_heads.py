"""Oracle: fine-tuned models of transformers, read and written; logits to 1e-5 in float32."""

import json

import numpy as np
import pytest

import keras_albert as ka
from keras_albert.checkpoints import load, report, to_google, to_huggingface
from tests.checkpoints.conftest import WORDS, assert_same_weights, batch, make, shake
from tests.checkpoints.test_transformers import make_theirs
from tests.conftest import to_numpy

HEADS = {
    "ForSequenceClassification": (ka.AlbertTextClassifier, {"num_classes": 2}),
    "ForMultipleChoice": (ka.AlbertMultipleChoice, {}),
    "ForTokenClassification": (ka.AlbertTokenClassifier, {"num_classes": 2}),
    "ForQuestionAnswering": (ka.AlbertSpanExtractor, {}),
}


def inputs(head):
    x = batch()
    del x["mask_positions"]
    if head == "ForMultipleChoice":
        x = {name: np.stack([value, value[::-1]], axis=1) for name, value in x.items()}
    return x


def logits_of(source, x):
    import torch

    with torch.no_grad():
        out = source(
            input_ids=torch.tensor(x["token_ids"], dtype=torch.long),
            token_type_ids=torch.tensor(x["segment_ids"], dtype=torch.long),
            attention_mask=torch.tensor(x["padding_mask"].astype("int64")),
        )
    if "logits" in out:
        return {"logits": out.logits.numpy()}
    return {"start": out.start_logits.numpy(), "end": out.end_logits.numpy()}


def close(model, expected, x, atol=1e-5):
    received = model(x)
    received = received if isinstance(received, dict) else {"logits": received}
    for name, value in expected.items():
        value, ours = np.array(value), to_numpy(received[name])
        if ours.ndim == 3 or name in ("start", "end"):  # what padding gives is nobody's business
            value, ours = value[x["padding_mask"]], ours[x["padding_mask"]]
        np.testing.assert_allclose(ours, value, rtol=0, atol=atol, err_msg=name)


@pytest.mark.parametrize("case", ["groups", "bert"])
@pytest.mark.parametrize("head", HEADS)
def test_heads_both_ways(transformers, tmp_path, case, head):
    source = make_theirs(transformers, case, head)
    if head == "ForTokenClassification":
        source.config.id2label = {0: "O", 1: "B-PER"}
        source.config.label2id = {"O": 0, "B-PER": 1}
    source.save_pretrained(tmp_path / "in")
    cls, _ = HEADS[head]
    x = inputs(head)
    expected = logits_of(source, x)
    model = cls.from_preset(tmp_path / "in", strict=True)
    close(model, expected, x)
    assert type(load(tmp_path / "in")) is cls
    if head == "ForTokenClassification":
        assert model.class_names == ["O", "B-PER"]
    to_huggingface(model, tmp_path / "out")
    again, loading = type(source).from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not any(loading.values()), loading
    for name, value in source.state_dict().items():
        assert (again.state_dict()[name] == value).all(), name
    assert again.config.id2label == source.config.id2label
    auto = f"AutoModel{head}"
    assert type(getattr(transformers, auto).from_pretrained(tmp_path / "out")) is type(source)


def test_another_number_of_classes_is_a_new_head(transformers, tmp_path):
    source = make_theirs(transformers, "groups", "ForSequenceClassification")
    source.save_pretrained(tmp_path / "in")
    with pytest.warns(UserWarning) as said:
        model = ka.AlbertTextClassifier.from_preset(tmp_path / "in", num_classes=5)
    assert model.num_classes == 5
    messages = sorted(str(warning.message).split(": ", 1)[1] for warning in said)
    assert messages == [
        "newly initialised: classifier",
        "not used: classifier.bias, classifier.weight",
    ]


def tasks():
    tokenizer = ka.BertTokenizer(WORDS)
    backbone = lambda: make(vocabulary_size=len(WORDS)).backbone  # noqa: E731
    names = ["no", "yes", "maybe"]
    return {
        "classifier": ka.AlbertTextClassifier(
            backbone(),
            3,
            ka.AlbertPreprocessor(tokenizer, sequence_length=16),
            class_names=names,
        ),
        "choice": ka.AlbertMultipleChoice(backbone()),
        "linear": ka.AlbertSpanExtractor(backbone()),
        "beam": ka.AlbertSpanExtractor(backbone(), head="beam"),
    }


@pytest.mark.parametrize("task", ["classifier", "choice", "linear", "beam"])
def test_google_checkpoints_with_task_heads(tensorflow, tmp_path, task):
    model = tasks()[task]
    shake(model)
    to_google(model, tmp_path / "out" / "model.ckpt-best")
    arguments = {"head": "beam"} if task == "beam" else {}
    again = type(model).from_preset(
        tmp_path / "out" / "model.ckpt-best", **{"strict": True, **arguments}
    )
    pooler = [] if model.uses_pooler else ["pooler"]
    pairs = zip(again.weights, model.weights, strict=True)
    for one, other in pairs:
        if not any(part in one.path for part in pooler):
            np.testing.assert_array_equal(to_numpy(one.value), to_numpy(other.value))
    assert type(load(tmp_path / "out" / "model.ckpt-best")) is (
        # The file does not say of which task a classifier is.
        ka.AlbertTextClassifier if task == "choice" else type(model)
    )
    names = {name for name, _ in tensorflow.train.list_variables(str(again_path(tmp_path)))}
    wanted = {
        "classifier": {"output_weights", "output_bias"},
        "choice": {"output_weights", "output_bias"},
        "linear": {"cls/squad/output_weights", "cls/squad/output_bias"},
        "beam": {
            "start_logits/dense/kernel",
            "end_logits/dense_0/kernel",
            "end_logits/LayerNorm/gamma",
            "end_logits/dense_1/bias",
            "answer_class/dense_0/kernel",
            "answer_class/dense_1/kernel",
        },
    }[task]
    assert wanted <= names


def again_path(tmp_path):
    return tmp_path / "out" / "model.ckpt-best"


def test_a_report_of_a_checkpoint_without_task_heads_misses_none(transformers, tmp_path):
    make_theirs(transformers, "groups", "ForPreTraining").save_pretrained(tmp_path / "in")
    assert report(tmp_path / "in").missing == []


def test_names_of_classes_travel(transformers, tmp_path):
    model = tasks()["classifier"]
    to_huggingface(model, tmp_path / "out")
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["id2label"] == {"0": "no", "1": "yes", "2": "maybe"}
    assert config["problem_type"] == "single_label_classification"
    again = load(tmp_path / "out")
    assert again.class_names == model.class_names
    assert_same_weights(again, model)


def test_the_beam_head_has_no_place_in_transformers(tmp_path):
    with pytest.raises(ValueError, match="no ALBERT with the beam head"):
        to_huggingface(tasks()["beam"], tmp_path / "out")
    assert not (tmp_path / "out").exists()
