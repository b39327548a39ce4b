"""Oracles: what the Keras models answer to the same strings; files that were damaged."""

import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest

import keras_albert as ka
from keras_albert import runtime
from tests.conftest import ROOT, to_numpy
from tests.export import conftest as tasks
from tests.export.conftest import LENGTH, TEXTS, texts_of
from tests.export.test_saved_model import ALBERT, BERT, CONTEXTS, KINDS

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

WORDS = [*TEXTS[2:3], "a\u2028b  \u0301 c", "é" * 300 + " dog", "over the lazy dog " * 20]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Makes a task's model and loads its file, once each."""
    folder, tokenizers, models = tmp_path_factory.mktemp("onnx"), {}, {}

    def make(task, kind):
        if kind not in tokenizers:
            tokenizers[kind] = tasks.make_tokenizer(kind)
        if (task, kind) not in models:
            keras.utils.set_random_seed(1)
            model = task(tokenizers[kind])
            path = ka.export.onnx(model, folder / f"{task.__name__}-{kind.__name__}.onnx")
            models[task, kind] = model, runtime.load(path, num_threads=1), path
        return models[task, kind]

    return make


def close(one, other, atol=1e-5):
    np.testing.assert_allclose(one, to_numpy(other), rtol=0, atol=atol)


kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


@kinds
@pytest.mark.parametrize("task", [tasks.classifier, tasks.regression, tasks.embedder])
def test_texts_and_pairs_are_answered_as_keras_does(made, task, kind):
    model, loaded, _ = made(task, kind)
    texts = TEXTS + texts_of(64)
    assert max(map(len, model.preprocessor.tokenizer.encode_batch(texts))) > LENGTH
    expected = model.predict(texts, verbose=0)
    close(loaded.predict(texts), expected)
    close(loaded.predict(texts[:7], batch_size=2), expected[:7])
    close(loaded.predict(texts[0]), expected[:1])
    pairs = texts, texts[::-1]
    close(loaded.predict(pairs), model.predict(pairs, verbose=0))
    if task is tasks.classifier:
        found, wanted = loaded.predict_classes(texts), model.predict_classes(texts, verbose=0)
        assert [name for name, _ in found] == [name for name, _ in wanted]
        close([p for _, p in found], [p for _, p in wanted])


@pytest.mark.backend_free
@kinds
def test_options_are_chosen_as_keras_does(made, kind):
    model, loaded, _ = made(tasks.chooser, kind)
    contexts = TEXTS[:3] + ["over the lazy dog " * 20]
    options = [["a fox", "a dog"], ["the lazy dog " * 9], ["7,000"], ["Café", "vu", "x " * 50]]
    questions = ["What? _", "Who?", "", "_ or _"]
    for x in ((contexts, options), (contexts, questions, options)):
        expected = model.predict(x, verbose=0)
        close(loaded.predict(x), expected)
        close(loaded.predict(x, batch_size=1), expected)


@pytest.mark.backend_free
@kinds
def test_words_are_tagged_as_keras_does(made, kind):
    model, loaded, _ = made(tasks.tagger, kind)
    assert loaded.tag(WORDS) == model.tag(WORDS, verbose=0)
    rows = model.preprocessor.encode(WORDS)
    logits = model.predict(WORDS, verbose=0)
    expected = [[] for _ in WORDS]
    for row, values in zip(rows, logits, strict=True):
        expected[row.sentence].append(values[row.starts])
    for found, parts in zip(loaded.predict(WORDS), expected, strict=True):
        close(found, np.concatenate(parts))


@pytest.mark.backend_free
@kinds
def test_masks_are_filled_as_keras_does(made, kind):
    model, loaded, _ = made(tasks.filler, kind)
    texts = ["The [MASK] fox", "[MASK]", "in [MASK], a[MASK]dog [MASK]"] * 12
    found, expected = loaded.fill_mask(texts, top_k=3), model.fill_mask(texts, top_k=3)
    assert len(found) == len(expected) == 36
    for ours, theirs in zip(
        [*found[0], *found[2][1]], [*expected[0], *expected[2][1]], strict=True
    ):
        assert ours.token == theirs.token
        assert ours.probability == pytest.approx(theirs.probability, abs=1e-5)
    assert [f.token_id for f in loaded.predict("[MASK]")] == [
        f.token_id for f in model.fill_mask("[MASK]")
    ]


@kinds
@pytest.mark.parametrize("task", [tasks.extractor, tasks.beam_extractor])
def test_questions_are_answered_as_keras_does(made, task, kind):
    model, loaded, _ = made(task, kind)
    questions = ["What did they say of the fox that jumped over the dog?", "When?", "", "x", "Who?"]
    x = (questions, CONTEXTS)
    found, expected = loaded.predict_spans(x), model.predict_spans(x, verbose=0)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.null_odds == pytest.approx(theirs.null_odds, abs=1e-4)
        best, wanted = ours.answer(), theirs.answer()
        assert (best.text, best.start, best.end) == (wanted.text, wanted.start, wanted.end)
        assert best.start_logit == pytest.approx(wanted.start_logit, abs=1e-5)
    assert sum(bool(answer.text) for answer in loaded.answer(x)) >= 4


PROGRAM = """
import json, sys

class Refuses:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("keras", "keras_hub", "tensorflow", "torch", "jax", "onnx"):
            raise ImportError(f"{name} must not be imported")

sys.meta_path.insert(0, Refuses())
from keras_albert import runtime
path, texts = json.load(sys.stdin)
print(json.dumps(runtime.load(path).predict(texts).tolist()))
"""


@pytest.mark.backend_free
def test_neither_keras_nor_tensorflow_is_needed(made):
    model, _, path = made(tasks.classifier, ALBERT)
    texts = [text for text in TEXTS if isinstance(text, str)] + texts_of(20)
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        input=json.dumps([str(path), texts]),
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "KERAS_ALBERT_LIGHT": "1"},
    )
    assert result.returncode == 0, result.stderr
    close(json.loads(result.stdout), model.predict(texts, verbose=0))


@pytest.mark.backend_free
def test_what_is_no_export_is_named(made, tmp_path):
    model, _, path = made(tasks.classifier, BERT)
    copy = tmp_path / "model.onnx"

    def refused(message):
        with pytest.raises(ValueError, match=message):
            runtime.load(copy)

    refused("Received: no file")
    copy.write_bytes(path.read_bytes()[:-100])
    refused("an ONNX file that is whole. Received: .*model.onnx")
    written = onnx.load(path)
    (vocabulary,) = (p for p in written.metadata_props if p.key == "vocabulary")
    vocabulary.value = vocabulary.value[:400] + "QUFB" + vocabulary.value[404:]
    onnx.save(written, copy)
    refused("The vocabulary must be the one|token")
    del written.metadata_props[:]
    onnx.save(written, copy)
    refused("an ONNX file of another program")
    ka.export.onnx(ka.AlbertTextClassifier(tasks.backbone(model.preprocessor.tokenizer), 2), copy)
    refused("holds no tokenizer")


@pytest.mark.backend_free
def test_wrong_arguments_are_refused(made):
    _, loaded, path = made(tasks.classifier, BERT)
    for call, message in (
        (lambda: runtime.load(3), "must be a file's path"),
        (lambda: runtime.load(path, num_threads=0), "an integer of at least 1"),
        (lambda: loaded.predict([3]), "Received at index 0: 3"),
        (lambda: loaded.predict([]), "at least one example"),
        (lambda: loaded.predict(("a", "b", "c")), "a tuple of 3"),
        (lambda: loaded.predict((["a"], ["b", "c"])), "as many of each"),
        (lambda: loaded.predict("a", batch_size=0), "an integer of at least 1"),
        (lambda: made(tasks.regression, BERT)[1].predict_classes("a"), "num_classes of at least 2"),
        (lambda: made(tasks.tagger, BERT)[1].tag([""]), "at least one word"),
        (lambda: made(tasks.chooser, BERT)[1].predict("a"), "a tuple \\(contexts, options\\)"),
        (lambda: made(tasks.extractor, BERT)[1].answer("a"), "a tuple \\(questions, contexts\\)"),
        (lambda: made(tasks.filler, BERT)[1].fill_mask("a"), r"must hold \[MASK\]"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
