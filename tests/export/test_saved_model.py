"""Oracles: the Keras models' own answers; the Python tokenizer; files that were damaged."""

import json
import re
import shutil

import keras
import numpy as np
import pytest

import keras_albert as ka
from tests.conftest import random_inputs, to_numpy
from tests.export import conftest as tasks
from tests.export.conftest import LENGTH, TEXTS, texts_of

# The graphs are TensorFlow's whatever the backend; `test_conversion.py` is what differs.
pytestmark = pytest.mark.backend_free

KINDS = {"albert": ka.AlbertTokenizer, "bert": ka.BertTokenizer}
ALBERT, BERT = KINDS.values()
# What a conversion costs on other backends is a process under TensorFlow for each.
IN_PROCESS = keras.backend.backend() == "tensorflow"


def cases(*quick, tasks_):
    """Every task with both tokenizers; those that are not `quick` are slow."""
    rows = []
    for task in tasks_:
        for name, kind in KINDS.items():
            is_quick = IN_PROCESS and (task, kind) in quick
            marks = () if is_quick else pytest.mark.slow
            rows.append(pytest.param(task, kind, id=f"{task.__name__}-{name}", marks=marks))
    return rows


def strings(values):
    import tensorflow as tf

    return tf.constant(values, tf.string)


def serve(loaded, signature="serving_default", **inputs):
    import tensorflow as tf

    fed = {name: tf.convert_to_tensor(value) for name, value in inputs.items()}
    return {k: v.numpy() for k, v in loaded.signatures[signature](**fed).items()}


def close(one, other, atol=1e-5):
    np.testing.assert_allclose(to_numpy(one), to_numpy(other), rtol=0, atol=atol)


def as_examples(**columns):
    import tensorflow as tf

    rows = []
    for row in zip(*columns.values(), strict=True):
        features = {}
        for name, value in zip(columns, row, strict=True):
            values = value if isinstance(value, list) else [value]
            values = [v.encode() if isinstance(v, str) else v for v in values]
            features[name] = tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
        example = tf.train.Example(features=tf.train.Features(feature=features))
        rows.append(example.SerializeToString())
    return strings(rows)


@pytest.mark.parametrize(
    ("task", "kind"),
    cases((tasks.embedder, BERT), tasks_=(tasks.classifier, tasks.regression, tasks.embedder)),
)
def test_texts_are_answered_as_keras_does(exports, task, kind):
    model, _, loaded = exports(task, kind)
    name = {"classifier": "logits", "regression": "value", "embedder": "vectors"}[task.__name__]
    texts = TEXTS + texts_of(32)
    served = serve(loaded, text=strings(texts))[name]
    close(served, model.predict(texts, verbose=0).reshape(served.shape))


@pytest.mark.parametrize(
    ("task", "kind"),
    cases(
        (tasks.classifier, ALBERT),
        (tasks.extractor, BERT),
        tasks_=(
            tasks.classifier,
            tasks.embedder,
            tasks.tagger,
            tasks.chooser,
            tasks.filler,
            tasks.extractor,
            tasks.beam_extractor,
        ),
    ),
)
def test_ids_are_answered_as_keras_does(exports, task, kind):
    model, _, loaded = exports(task, kind, pair=task is tasks.classifier and kind is ALBERT)
    for batch, length in ((1, 5), (5, LENGTH), (64, 9)):
        lengths = np.linspace(0, length, batch).astype(int)
        x = random_inputs(batch, length, lengths=lengths)
        if task is tasks.chooser:
            x = {name: values[:, None] for name, values in x.items()}
        if task is tasks.filler:
            x["mask_positions"] = np.minimum(lengths, length - 1)[:, None].astype("int32")
        served = serve(loaded, "token_ids", **x)
        if task is tasks.beam_extractor:
            x["start_positions"] = np.zeros(batch, "int32")
        outputs = model(x, training=False)
        if not isinstance(outputs, dict):
            outputs = {"vectors" if task is tasks.embedder else "logits": outputs}
        for name, output in outputs.items():
            close(served[name], output)
    # Rows are cut to the declared length.
    if task is tasks.classifier:
        long = random_inputs(2, 70)
        short = {name: values[:, :LENGTH] for name, values in long.items()}
        close(
            serve(loaded, "token_ids", **long)["logits"],
            serve(loaded, "token_ids", **short)["logits"],
            atol=0,
        )


@pytest.mark.parametrize(("task", "kind"), cases(tasks_=(tasks.tagger,)))
def test_words_are_tagged_as_keras_does(exports, task, kind):
    model, _, loaded = exports(task, kind)
    texts = [text for text in TEXTS[:3] if text] + ["a\u2028b  \u0301 c", "é" * 300 + " dog", "x"]
    served = serve(loaded, text=strings(["", *texts]))
    assert not served["words"][0].any()
    for i, text in enumerate(texts, start=1):
        words = list(re.finditer(r"\S+", text))
        count = int((served["starts"][i] >= 0).sum())
        rows = model.preprocessor.encode([text])
        assert count == len(rows[0].starts)  # the words that fit
        assert [word.decode() for word in served["words"][i][:count]] == [
            word.group() for word in words[:count]
        ]
        assert served["starts"][i][:count].tolist() == [w.start() for w in words[:count]]
        assert served["ends"][i][:count].tolist() == [w.end() for w in words[:count]]
        expected = model.tag([text], verbose=0)[0][:count]
        assert [tag.decode() for tag in served["tags"][i]][:count] == expected
        assert not served["probabilities"][i][count:].any()


@pytest.mark.parametrize(("task", "kind"), cases(tasks_=(tasks.chooser,)))
def test_options_are_chosen_as_keras_does(exports, task, kind):
    model, _, loaded = exports(task, kind)
    contexts = TEXTS[:3] + ["over the lazy dog " * 20]
    options = [["a fox", "a dog"], ["the lazy dog " * 9], ["7,000"], ["Café", "vu", "x " * 50]]
    expected = model.predict((contexts, options), verbose=0)
    padded = [[*row, *[""] * (3 - len(row))] for row in options]
    served = serve(loaded, context=strings(contexts), options=strings(padded))
    close(served["logits"], expected)
    assert served["choice"].tolist() == np.argmax(expected, axis=-1).tolist()
    again = serve(loaded, "examples", examples=as_examples(context=contexts, options=padded))
    np.testing.assert_array_equal(again["logits"], served["logits"])


@pytest.mark.parametrize(("task", "kind"), cases(tasks_=(tasks.filler,)))
def test_masks_are_filled_as_keras_does(exports, task, kind):
    model, _, loaded = exports(task, kind)
    texts = ["The [MASK] fox", "[MASK]", "no mask", "in [MASK], a[MASK]dog [MASK]", "dog " * 99]
    served = serve(loaded, text=strings(texts))
    for i, text in enumerate(texts):
        count = text.count("[MASK]")
        assert not served["probabilities"][i, count:].any()
        if count:
            filled = model.fill_mask(text)
            for m, best in enumerate([filled] if count == 1 else filled):
                assert [t.decode() for t in served["tokens"][i, m]] == [f.token for f in best]
                close(served["probabilities"][i, m], [f.probability for f in best])


CONTEXTS = [
    # Of several windows, and no words twice: equal scores would be told apart by rounding.
    "The quick brown fox (so they say) jumped over the lazy dog - and over 1,000 others, too; "
    "in 2012 a zebra cost £5, €6 or 7 francs.",
    "  Cafe\u0301 déjà vu:\u00a0 in 2010, 2011, or 7,000,000 francs ½ \ufb01sh\u00ad! ",
    "a",
    "",
    "Straße, ΣΊΣΥΦΟΣ, Москва",
]


@pytest.mark.parametrize(
    ("task", "kind"),
    cases((tasks.extractor, BERT), tasks_=(tasks.extractor, tasks.beam_extractor)),
)
def test_questions_are_answered_as_keras_does(exports, task, kind):
    model, _, loaded = exports(task, kind)
    questions = ["What did they say of the fox that jumped over the dog?", "When?", "", "x", "Who?"]
    x = (questions, CONTEXTS)
    expected = model.predict_spans(x, verbose=0)
    served = serve(loaded, question=strings(questions), context=strings(CONTEXTS))
    for i, prediction in enumerate(expected):
        answer = prediction.answer()
        found = (served["answer"][i].decode(), *(int(served[k][i]) for k in ("start", "end")))
        assert found == (answer.text, answer.start, answer.end), (i, answer)
        if answer.text:
            close(served["score"][i], answer.start_logit + answer.end_logit, atol=1e-4)
        close(served["null_odds"][i], prediction.null_odds, atol=1e-4)
    assert sum(bool(answer) for answer in served["answer"]) >= 4


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_any_request_is_answered(exports, kind):
    quick = {ALBERT: tasks.classifier, BERT: tasks.extractor}[kind]
    if not IN_PROCESS and quick is tasks.extractor:
        pytest.skip("one conversion is enough here")
    pair = quick is tasks.classifier
    _, _, loaded = exports(quick, kind, pair=pair)
    names = ("text", "text_pair") if pair else ("question", "context")
    odd = ["", " ", b"\xff\xc0\x80", b"\x00", "\u0301", "\U0010ffff", "e\u0301" * 5000]
    mega = ["word, " * 175_000, "x" * 1_050_000]
    for texts in ([], odd, mega[:1], mega[1:]):
        outputs = serve(loaded, **dict.fromkeys(names, strings(texts)))
        for name, output in outputs.items():
            assert len(output) == len(texts), name
            assert output.dtype.kind in "OSi" or np.isfinite(output).all(), name


UNICODE = [
    *range(32, 127),
    *range(0xA0, 0x250),
    *range(0x300, 0x370),
    *range(0x391, 0x3CA),
    *range(0x410, 0x450),
    *range(0x2000, 0x2070),
    *(9, 10, 0x1680, 0x3000, 0xFB01, 0xBD, 0xAC00, 0x4E00, 0x1F600, 0x202F, 0xAD),
]


def random_texts(count):
    rng = np.random.default_rng(3)
    letters = np.array([chr(code) for code in UNICODE])
    common = np.array(list("the fox 2010, a dog.éE "))
    texts = []
    for _ in range(count):
        some = rng.choice(common, 20) if rng.random() < 0.5 else rng.choice(letters, 20)
        texts.append("".join(np.where(rng.random(20) < 0.8, some, rng.choice(letters, 20))))
    return texts


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_the_graph_tokenizes_random_unicode_as_python_does(kind, count):
    tf = pytest.importorskip("tensorflow")
    pytest.importorskip("tensorflow_text")
    from keras_albert.export.graph_offsets import tokenize_with_offsets
    from keras_albert.export.graph_text import GraphText

    tokenizer = tasks.make_tokenizer(kind)
    texts = random_texts(count)
    ids = GraphText(tokenizer, LENGTH).tokenize(strings(texts)).to_list()
    assert ids == tokenizer.encode_batch(texts)

    def with_offsets(text):
        return tokenize_with_offsets(tokenizer, text)

    function = tf.function(with_offsets, input_signature=[tf.TensorSpec([None], tf.string)])
    columns = [column.to_list() for column in function(strings(texts))]
    for text, *found in zip(texts, *columns, strict=True):
        assert tuple(found) == tokenizer.encoder.encode_with_offsets(text), ascii(text)


def damaged(directory, tmp_path):
    copy = tmp_path / "1"
    shutil.copytree(directory, copy)
    return copy


def test_damage_is_named(exports, tmp_path):
    _, directory, _ = exports(tasks.classifier, ALBERT, pair=True)
    extra = "assets.extra"

    def cut(path):
        path.write_bytes(path.read_bytes()[:-7])

    def flip(path):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(bytes(data))

    for file, damage, message in (
        ("variables/variables.data-00000-of-00001", cut, r"data-00000-of-00001 is cut short"),
        ("saved_model.pb", cut, "saved_model.pb is cut short"),
        ("saved_model.pb", flip, "saved_model.pb has other content"),
        (f"{extra}/labels.txt", lambda path: path.unlink(), "labels.txt is missing"),
        (f"{extra}/files.json", lambda path: path.unlink(), "files.json is missing"),
        (f"{extra}/about.json", cut, "about.json must be JSON"),
        (f"{extra}/about.json", lambda path: path.write_text("{}"), "something is missing in them"),
        (f"{extra}/vocabulary.spm", flip, "The vocabulary must be the one"),
        (f"{extra}/more.txt", lambda path: path.write_text("x"), "Received also: .*more.txt"),
    ):
        copy = damaged(directory, tmp_path)
        damage(copy / file)
        with pytest.raises(ValueError, match=message):
            ka.export.serve_check(copy)
        shutil.rmtree(copy)


def test_a_fresh_process_without_keras_gives_the_recorded_answers(exports, tmp_path):
    model, directory, _ = exports(tasks.classifier, ALBERT, pair=True)
    about = ka.export.serve_check(directory)
    assert about["task"] == "AlbertTextClassifier"
    assert about["labels"] == ["no", "yes", "naïve"]
    assert about["vocabulary"]["fingerprint"] == model.preprocessor.tokenizer.fingerprint()
    labels = (directory / "assets.extra/labels.txt").read_text(encoding="utf-8")
    assert labels.split() == about["labels"]

    # Whole, and listed anew, but with another answer.
    from keras_albert.export.manifest import write_manifest

    copy = damaged(directory, tmp_path)
    path = copy / "assets.extra/answers.json"
    calls = json.loads(path.read_text())
    calls[0]["outputs"]["logits"]["values"][0] += 0.01
    path.write_text(json.dumps(calls))
    (copy / "assets.extra/files.json").unlink()
    write_manifest(copy)
    with pytest.raises(
        ValueError, match="'serving_default' must answer .*'logits' differs by 0.01"
    ):
        ka.export.serve_check(copy)


def test_an_op_that_no_server_has_is_named(tmp_path, exports):
    tf = pytest.importorskip("tensorflow")
    from keras_albert.export.allowed_ops import check_ops

    module = tf.Module()
    module.call = tf.function(
        lambda x: tf.numpy_function(np.sort, [x], tf.float32),
        input_signature=[tf.TensorSpec([None], tf.float32)],
    )
    tf.saved_model.save(module, str(tmp_path / "1"))
    with pytest.raises(ValueError, match=r"PyFunc.* \(in node"):
        check_ops(tmp_path / "1")


def test_a_version_appears_when_it_is_whole(exports, tmp_path, monkeypatch):
    model, directory, _ = exports(tasks.classifier, ALBERT, pair=True)
    assert [path.name for path in directory.parent.iterdir()] == ["1"]
    with pytest.raises(ValueError, match="`directory` must be new"):
        ka.export.saved_model(model, directory)
    from keras_albert.export import conversion

    def fail(model, module, partial, options):
        partial.mkdir()
        (partial / "saved_model.pb").write_bytes(b"half")
        raise RuntimeError("no space left")

    import sys

    monkeypatch.setattr(sys.modules["keras_albert.export.saved_model"], "convert", fail)
    with pytest.raises(RuntimeError, match="no space"):
        ka.export.saved_model(model, tmp_path / "served" / "2")
    assert not any((tmp_path / "served").iterdir())
    assert conversion.convert is not fail


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": None}, "`model` of saved_model must be one of AlbertMultipleChoice"),
        ({"directory": 3}, "must be a directory's path"),
        ({"directory": "served"}, "must end with a version"),
        ({"sequence_length": 3}, "an integer of at least 4"),
        ({"sequence_length": 65}, "must not be above the backbone's max_sequence_length=64"),
        ({"pair": "yes"}, "must be True or False"),
        ({"warmup_batch_sizes": [0]}, "integers of at least 1"),
        ({"warmup_batch_sizes": 8}, "integers of at least 1"),
    ],
)
def test_what_cannot_be_exported_is_refused(tmp_path, arguments, message):
    from keras_albert.export import saved_model

    model = tasks.regression(tasks.make_tokenizer(BERT))
    with pytest.raises(ValueError, match=message):
        saved_model(**{"model": model, "directory": tmp_path / "1", **arguments})
    assert not any(tmp_path.iterdir())


def test_tasks_that_cannot_be_exported_so_are_refused(tmp_path):
    from keras_albert.export import saved_model, serve_check

    model = tasks.tagger(tasks.make_tokenizer(BERT))
    with pytest.raises(ValueError, match="`pair` is of a classifier or an embedder"):
        saved_model(model, tmp_path / "1", pair=True)
    without = ka.AlbertTextClassifier(tasks.backbone(model.preprocessor.tokenizer), 2)
    with pytest.raises(ValueError, match="the model needs a tokenizer"):
        saved_model(without, tmp_path / "1")
    with pytest.raises(ValueError, match="`directory` must be an export"):
        serve_check(tmp_path / "1")
    with pytest.raises(ValueError, match="files.json is missing"):
        serve_check(tmp_path)


def test_an_export_that_answers_otherwise_is_refused(exports):
    from keras_albert.export.saved_model import compare

    model, directory, _ = exports(tasks.classifier, ALBERT, pair=True)
    compare(model, directory)
    other = tasks.classifier(model.preprocessor.tokenizer)
    with pytest.raises(RuntimeError, match="'logits' must equal the model's"):
        compare(other, directory)
