"""Oracles: closed forms, brute force over spans, invariants of order, padding, saving, seeds."""

import itertools

import keras
import numpy as np
import pytest
from keras import ops

import keras_albert as ka
from tests.conftest import random_inputs, to_numpy

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "fine", "awful", "the"]
WORDS += [
    "film",
    "was",
    "it",
    "ada",
    "wrote",
    "in",
    "london",
    "##er",
    "##s",
    ".",
    "?",
    "who",
    "not",
]
TEXTS = ["good film", "the film was bad", "fine", "it was awful", "the good film was fine . good"]
LABELS = [1, 0, 1, 0, 1]
# Two windows, and a pair of texts for each example.
CONTEXT = "the film was good . ada wrote it in london . the film was not bad . it was fine"


def backbone(**arguments):
    sizes = {
        "vocabulary_size": len(WORDS),
        "num_layers": 2,
        "num_heads": 2,
        "embedding_dim": 8,
        "hidden_dim": 12,
        "intermediate_dim": 24,
        "max_sequence_length": 64,
        "initializer_range": 0.2,  # larger than in use, so that differences show
    }
    return ka.AlbertBackbone(**{**sizes, **arguments})


@pytest.fixture(scope="module")
def tokenizer():
    return ka.BertTokenizer(WORDS)


def classifier(tokenizer, num_classes=2, **arguments):
    preprocessor = ka.AlbertPreprocessor(tokenizer, sequence_length=32)
    return ka.AlbertTextClassifier(backbone(), num_classes, preprocessor, **arguments)


def chooser(tokenizer):
    preprocessor = ka.AlbertMultipleChoicePreprocessor(tokenizer, sequence_length=32)
    return ka.AlbertMultipleChoice(backbone(), preprocessor)


def tagger(tokenizer, sequence_length=16):
    preprocessor = ka.AlbertTokenClassifierPreprocessor(tokenizer, sequence_length=sequence_length)
    names = ["O", "B-PER", "B-LOC"]
    return ka.AlbertTokenClassifier(backbone(), 3, preprocessor, class_names=names)


def extractor(tokenizer, head="linear"):
    preprocessor = ka.AlbertSpanExtractorPreprocessor(
        tokenizer, sequence_length=24, max_query_length=8, doc_stride=6
    )
    return ka.AlbertSpanExtractor(backbone(), preprocessor, head=head)


CHOICES = (["the film was", "ada"], [["good", "not", "in london ?"], ["wrote it", "bad"]])
SENTENCES = [["ada", "was", "in", "london"], ["londoners", "wrote"]]
QUESTIONS = (["who wrote it ?", "was it bad ?"], [CONTEXT, "the film"])
ANSWERS = [
    {"text": ["ada"], "answer_start": [CONTEXT.index("ada")]},
    {"text": [], "answer_start": []},
]
TASKS = {
    "classifier": (classifier, TEXTS, LABELS),
    "pairs": (classifier, (TEXTS, TEXTS[::-1]), LABELS),
    "choices": (chooser, CHOICES, [1, 0]),
    "tags": (tagger, SENTENCES, [[1, 0, 0, 2], [2, 0]]),
    "linear": (extractor, QUESTIONS, ANSWERS),
    "beam": (lambda tokenizer: extractor(tokenizer, "beam"), QUESTIONS, ANSWERS),
}


def outputs(model, x):
    """The model's outputs, without `predict`, whose compilation takes most of a test's time."""
    rows = [row._replace(label=None, weight=None) for row in model.preprocessor.encode(x)]
    length = model.preprocessor.sequence_length
    return keras.tree.map_structure(to_numpy, model(model.collate(rows, length)))


@pytest.mark.parametrize("task", TASKS)
def test_a_few_examples_are_learned_by_heart_and_saved(tokenizer, tmp_path, task):
    make, x, y = TASKS[task]
    model = make(tokenizer)
    model.compile(learning_rate=5e-3)
    history = model.fit(x, y, epochs=60, batch_size=16, verbose=0).history
    assert history["loss"][-1] < 0.2 * history["loss"][0], history["loss"]
    for name, values in history.items():
        assert "accuracy" not in name or values[-1] == 1, (name, values)
    if task == "tags":
        assert model.tag(x, verbose=0) == [["B-PER", "O", "O", "B-LOC"], ["B-LOC", "O"]]
    if task in ("linear", "beam"):
        predictions = model.predict_spans(x, verbose=0)
        assert predictions[0].answer().text == "ada"
        assert predictions[1].null_odds > predictions[0].null_odds
        model.null_threshold = (predictions[0].null_odds + predictions[1].null_odds) / 2
        assert [a.text for a in model.answer(x, verbose=0)] == ["ada", ""]

    expected = outputs(model, x)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert type(loaded) is type(model)
    same(outputs(loaded, x), expected, 1e-6)
    assert int(loaded.optimizer.iterations) == int(model.optimizer.iterations) == 60
    for one, other in zip(loaded.optimizer.variables, model.optimizer.variables, strict=True):
        np.testing.assert_array_equal(to_numpy(one.value), to_numpy(other.value))
    model.save_to_preset(tmp_path / "preset")
    same(outputs(type(model).from_preset(tmp_path / "preset"), x), expected, 1e-6)


def same(one, other, atol=1e-5):
    for a, b in zip(keras.tree.flatten(one), keras.tree.flatten(other), strict=True):
        np.testing.assert_allclose(to_numpy(a), to_numpy(b), rtol=0, atol=atol)


def test_a_pretrained_preset_becomes_any_task(tokenizer, tmp_path):
    preprocessor = ka.AlbertPretrainerPreprocessor(tokenizer, sequence_length=32)
    pretrainer = ka.AlbertPretrainer(backbone(), preprocessor)
    pretrainer.save_to_preset(tmp_path / "preset")
    for cls, own in (
        (ka.AlbertTextClassifier, {"num_classes": 3}),
        (ka.AlbertMultipleChoice, {}),
        (ka.AlbertTokenClassifier, {"num_classes": 3}),
        (ka.AlbertSpanExtractor, {"head": "beam"}),
    ):
        with pytest.warns(UserWarning, match="newly initialised: (classifier|beam_head)"):
            model = cls.from_preset(tmp_path / "preset", sequence_length=48, **own)
        assert model.preprocessor.sequence_length == 48
        for a, b in zip(model.backbone.weights, pretrainer.backbone.weights, strict=True):
            np.testing.assert_array_equal(to_numpy(a.value), to_numpy(b.value))


def test_predictions_stand_in_the_order_of_the_texts_whatever_their_length(tokenizer):
    model = classifier(tokenizer)
    texts = [" ".join(WORDS[5 : 5 + n]) for n in (9, 1, 17, 3, 2, 18)]
    together = model.predict(texts, batch_size=2, verbose=0)
    alone = np.concatenate([outputs(model, [text]) for text in texts])
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-5)
    for length in (32, 64):  # padded further
        rows = [row.segments for row in model.preprocessor.encode(texts)]
        padded = model(model.preprocessor.packer.pack(rows, length))
        np.testing.assert_allclose(to_numpy(padded), together, rtol=0, atol=1e-5)


def test_any_batch_may_be_longer_or_have_more_options_than_the_first_two(tokenizer):
    texts, labels = ["good", "bad", "fine", " ".join(WORDS[5:25])], [1, 0, 1, 0]
    model = classifier(tokenizer)
    model.fit(
        texts, labels, batch_size=1, shuffle=False, validation_data=(texts, labels), verbose=0
    )
    assert model.predict(texts, batch_size=1, verbose=0).shape == (4, 2)
    contexts, options = ["good"] * 4, [["bad"], ["fine"], ["film"], ["it", "was", texts[3]]]
    assert chooser(tokenizer).evaluate((contexts, options), [0, 0, 0, 1], batch_size=1, verbose=0)


def test_a_batch_is_computed_by_the_compiled_function_alone(tokenizer, monkeypatch):
    """JAX's trainer calls the model itself while one of its layers is not built."""
    model = classifier(tokenizer)
    model.predict_on_batch(TEXTS)
    calls, call = [], type(model).call
    monkeypatch.setattr(
        type(model), "call", lambda self, *args, **kw: calls.append(1) or call(self, *args, **kw)
    )
    model.predict_on_batch(TEXTS)
    assert len(calls) == (keras.backend.backend() == "torch")  # which compiles nothing
    assert all(layer.built for layer in model._flatten_layers())


def test_a_tuple_is_a_pair_and_labels_are_y(tokenizer):
    model = classifier(tokenizer)
    pairs = model.preprocessor.encode((["good"], ["bad film"]))
    packed = model.preprocessor.collate(pairs, 16)
    assert packed["token_ids"][0, :7].tolist() == [2, 5, 3, 6, 10, 3, 0]
    assert packed["segment_ids"][0, :7].tolist() == [0, 0, 0, 1, 1, 1, 0]
    with pytest.raises(ValueError, match="`y` must hold a label"):
        model.fit((TEXTS, TEXTS))
    with pytest.raises(ValueError, match="must be a list of strings.*index 0: 1"):
        model.fit((TEXTS, LABELS))


@pytest.mark.parametrize("wrong", ([0, 1, 2, 0, 1], [0, -1, 0, 0, 0], [0.5, 1, 0, 0, 0], ["a"] * 5))
def test_a_label_out_of_range_is_named(tokenizer, wrong):
    with pytest.raises(ValueError, match="integers from 0 to 1.*at index"):
        classifier(tokenizer).fit(TEXTS, wrong)


def test_one_class_is_regression_by_the_squared_error(tokenizer):
    model = classifier(tokenizer, num_classes=1)
    targets = [0.5, 2.0, -1.0, 4.0, 3.0]
    predicted = model.predict(TEXTS, verbose=0)
    assert predicted.shape == (5, 1)
    loss = model.evaluate(TEXTS, targets, verbose=0)[0]
    assert loss == pytest.approx(np.mean((predicted[:, 0] - targets) ** 2), rel=1e-5)
    with pytest.raises(ValueError, match="num_classes of at least 2"):
        model.predict_classes(TEXTS)


def test_sample_weights_weigh(tokenizer):
    model = classifier(tokenizer)
    log_p = to_numpy(ops.log_softmax(model.predict(TEXTS, verbose=0)))[range(5), LABELS]
    weights = np.array([1.0, 0.0, 2.0, 0.5, 3.0])
    loss = model.evaluate(TEXTS, LABELS, sample_weight=weights, verbose=0)[0]
    assert loss == pytest.approx(-(weights * log_p).sum() / weights.sum(), rel=1e-5)


def test_the_number_of_options_may_vary_and_padding_never_wins(tokenizer):
    model = chooser(tokenizer)
    logits = model.predict(CHOICES, verbose=0)
    assert logits.shape == (2, 3) and logits[1, 2] < -1e8
    contexts, options = CHOICES
    for i in range(2):
        alone = outputs(model, ([contexts[i]], [options[i]]))
        np.testing.assert_allclose(logits[i, : len(options[i])], alone[0], rtol=0, atol=1e-5)
    with pytest.raises(ValueError, match="Received: 2 at index 1, of 2 options"):
        model.fit(CHOICES, [0, 2])


def test_race_puts_the_option_into_the_question(tokenizer):
    preprocessor = ka.AlbertMultipleChoicePreprocessor(
        tokenizer, sequence_length=12, option_length=4
    )
    x = (["the film was good ."], ["who was _ ?"], [["ada", "it"]])
    ids = preprocessor(x)["token_ids"][0]
    word = {w: i for i, w in enumerate(WORDS)}
    first = [2, *(word[w] for w in "the film was good .".split()), 3]
    assert ids[0].tolist() == [*first, *(word[w] for w in "who was ada ?".split()), 3]
    plain = (["the film was good . the film"], ["who was"], [["ada ?"]])
    # The last four of the question and the option stay, and the context loses its tail.
    assert preprocessor(plain)["token_ids"][0, 0].tolist() == [
        *first,
        *(word[w] for w in "who was ada ?".split()),
        3,
    ]


def test_words_are_labelled_at_their_first_piece_and_long_sentences_are_cut(tokenizer):
    preprocessor = ka.AlbertTokenClassifierPreprocessor(tokenizer, sequence_length=8)
    words = ["londoners", "was", "ada", "londoner", "in", "london"]  # 3 1 1 2 1 1 pieces
    rows = preprocessor.encode([words], [[5, 1, 2, 3, 4, 0]])
    assert [row.starts for row in rows] == [[1, 4, 5], [1, 3, 4]]
    x, y, weights = preprocessor.collate(rows, 8)
    assert y.tolist() == [[0, 5, 0, 0, 1, 2, 0, 0], [0, 3, 0, 4, 0, 0, 0, 0]]
    assert weights.tolist() == [[0, 1, 0, 0, 1, 1, 0, 0], [0, 1, 0, 1, 1, 0, 0, 0]]
    model = tagger(tokenizer, sequence_length=8)
    tags = model.tag([words, ["ada"], words[:2]], verbose=0)
    assert [len(t) for t in tags] == [6, 1, 2]
    with pytest.raises(ValueError, match="one for each word.*index 1"):
        model.fit([["ada"], ["was", "it"]], [[0], [1]])


def test_the_beam_against_all_spans():
    """The best pair of the beam is the best of all spans, where the beam holds all starts."""
    rng = np.random.default_rng(0)
    head = ka.layers.BeamSpanHead(beam_size=7, kernel_initializer="glorot_normal")
    x = rng.normal(size=(2, 9, 6)).astype("float32")
    segments = np.array([[0, 0, 0, 1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1, 1, 0, 0]])
    mask = np.array([[1] * 9, [1] * 7 + [0] * 2]).astype(bool)
    allowed = [[0, 3, 4, 5, 6, 7], [0, 2, 3, 4, 5]]

    def run(starts):
        out = head(x, segment_ids=segments, padding_mask=mask, start_positions=np.array(starts))
        return {name: to_numpy(value) for name, value in out.items()}

    def log_softmax(row):
        return row - row.max() - np.log(np.exp(row - row.max()).sum())

    out = run([0, 0])
    for b in range(2):
        start = log_softmax(out["start"][b].astype("float64"))
        assert np.flatnonzero(out["start"][b] > -1e29).tolist() == allowed[b]
        score = {}
        for s, e in itertools.product(allowed[b], allowed[b]):
            given = run([s, s])["end"][b].astype("float64")  # the end, given this start
            score[s, e] = start[s] + log_softmax(given)[e]
        k = len(allowed[b])
        received = {
            (int(out["beam_starts"][b, i]), int(out["beam_ends"][b, i, j])): float(
                out["beam_start_log_probs"][b, i] + out["beam_end_log_probs"][b, i, j]
            )
            for i, j in itertools.product(range(k), range(k))
        }
        assert received == pytest.approx(score, abs=1e-4)


def test_the_loss_of_the_beam_head_by_hand(tokenizer):
    model = extractor(tokenizer, "beam")
    x, y = QUESTIONS, ANSWERS
    rows = model.preprocessor.encode(x, y)
    inputs, labels = model.collate(rows, 24)
    out = {name: to_numpy(value).astype("float64") for name, value in model(inputs).items()}
    index = np.arange(len(rows))
    loss = 0.0
    for name in ("start", "end"):
        log_p = out[name] - np.log(np.exp(out[name]).sum(-1, keepdims=True))
        loss -= 0.5 * log_p[index, labels[name]].mean()
    logit, truth = out["unanswerable"], labels["unanswerable"]
    loss += 0.5 * np.mean(np.log1p(np.exp(logit)) - truth * logit)
    assert model.evaluate(x, y, verbose=0)[0] == pytest.approx(loss, rel=1e-5)


def test_the_end_is_conditioned_by_one_product_of_two(tokenizer):
    """concat(h, h_start) W, as the source writes it."""
    head = ka.layers.BeamSpanHead(kernel_initializer="glorot_normal")
    x = np.random.default_rng(0).normal(size=(1, 8, 4)).astype("float32")
    segments, mask = np.array([[0, 0, 1, 1, 1, 1, 1, 1]]), np.ones((1, 8), bool)
    out = head(x, segment_ids=segments, padding_mask=mask, start_positions=np.array([3]))
    both = np.concatenate([x, np.repeat(x[:, 3:4], 8, 1)], -1)
    hidden = head.end_norm(ops.tanh(head.end_hidden(both)))
    expected = to_numpy(head.end_dense(hidden))[0, :, 0]
    received = to_numpy(out["end"])[0]
    np.testing.assert_allclose(
        received[[0, 2, 3, 4, 5, 6]], expected[[0, 2, 3, 4, 5, 6]], atol=1e-5
    )
    assert (received[[1, 7]] < -1e29).all()


def test_unfound_answers_are_left_out_and_named(tokenizer):
    model = extractor(tokenizer)
    answers = [{"text": ["london"], "answer_start": [0]}, *ANSWERS[:1]]
    with pytest.warns(UserWarning, match="1 questions are left out.*0: the answer 'london'"):
        model.fit((QUESTIONS[0], [CONTEXT, CONTEXT]), answers, verbose=0)


def test_weight_decay_spares_biases_and_layer_norms_also_when_saved(tokenizer):
    model = classifier(tokenizer)
    optimizer = ka.AdamW(0.1, weight_decay=0.5)
    optimizer = ka.AdamW.from_config(optimizer.get_config())
    before = {v.path: to_numpy(v.value) for v in model.trainable_variables}
    zeros = [ops.zeros_like(v.value) for v in model.trainable_variables]
    optimizer.apply(zeros, model.trainable_variables)
    for v in model.trainable_variables:
        spared = "bias" in v.path or "layer_norm" in v.path
        factor = 1.0 if spared else 1 - 0.1 * 0.5
        np.testing.assert_allclose(to_numpy(v.value), before[v.path] * factor, rtol=1e-6)
    assert any("layer_norm" in path for path in before)


def test_the_automatic_rate_rises_over_a_tenth_and_falls_to_nothing(tokenizer):
    model = classifier(tokenizer)
    model.compile(learning_rate=1e-3)
    for _ in range(2):  # each fit is a run of its own
        model.fit(TEXTS * 4, LABELS * 4, batch_size=2, epochs=2, verbose=0)
        rate = model.optimizer._learning_rate  # the schedule
        assert int(model.optimizer.iterations) == 20
        rates = [float(rate(step)) for step in (0, 1, 2, 10, 20)]
        np.testing.assert_allclose(rates, [0, 5e-4, 9e-4, 5e-4, 0], rtol=1e-5, atol=1e-12)


def test_the_automatic_rate_knows_the_steps_of_a_tf_dataset(tokenizer):
    tf = pytest.importorskip("tensorflow")
    pytest.importorskip("tensorflow_text")
    model = classifier(tokenizer)
    model.compile(learning_rate=1e-3)
    data = tf.data.Dataset.from_tensor_slices((TEXTS, LABELS)).batch(2)
    model.fit(data, epochs=2, verbose=0)
    assert int(model.optimizer.iterations) == 6
    rate = model.optimizer._learning_rate  # the schedule
    np.testing.assert_allclose([float(rate(step)) for step in (0, 3, 6)], [0, 5e-4, 0], atol=1e-9)


def test_training_follows_the_seed(tokenizer):
    runs = []
    for seed in (1, 1, 2):
        keras.utils.set_random_seed(seed)
        model = classifier(tokenizer)
        model.compile(learning_rate=1e-3)
        model.fit(TEXTS, LABELS, epochs=2, batch_size=2, verbose=0)
        runs.append(model.predict(TEXTS, verbose=0))
    np.testing.assert_array_equal(runs[0], runs[1])
    assert np.abs(runs[0] - runs[2]).max() > 1e-3


def test_a_detached_preprocessor(tokenizer):
    model = classifier(tokenizer)
    preprocessor, model.preprocessor = model.preprocessor, None
    x = preprocessor(TEXTS)
    model.fit(x, np.array(LABELS), verbose=0)
    with pytest.raises(ValueError, match="preprocessor=AlbertPreprocessor"):
        model.predict(TEXTS)
    with pytest.raises(ValueError, match="above the backbone's max_sequence_length=64.*65"):
        long = ka.AlbertPreprocessor(tokenizer, sequence_length=65)
        ka.AlbertTextClassifier(backbone(), 2, long)


def test_class_names_are_given_back(tokenizer):
    model = classifier(tokenizer, class_names=["negative", "positive"])
    logits = model.predict(TEXTS, verbose=0)
    for (name, probability), row in zip(
        model.predict_classes(TEXTS, verbose=0), logits, strict=True
    ):
        assert name == ["negative", "positive"][row.argmax()]
        assert probability == pytest.approx(np.exp(row.max()) / np.exp(row).sum(), rel=1e-5)


def test_a_pooler_that_nothing_trains_is_frozen(tokenizer):
    x = random_inputs(2, 6, len(WORDS))
    for make in (tagger, extractor):
        model = make(tokenizer)
        assert not model.backbone.pooler.trainable_variables
        model({name: x[name] for name in x})


@pytest.mark.parametrize(
    ("layers", "pooling"),
    [
        ("sum_last_four", "mean"),
        ("concat_last_four", "cls"),
        ("second_to_last", None),
        *(
            pytest.param(layers, pooling, marks=pytest.mark.backend_free)
            for layers, pooling in (
                ("last", "mean"),
                ("last", "cls"),
                ("last", None),
                ("second_to_last", "mean"),
                ("second_to_last", "cls"),
                ("sum_last_four", "cls"),
                ("sum_last_four", None),
                ("concat_last_four", "mean"),
                ("concat_last_four", None),
            )
        ),
    ],
)
def test_features_are_those_of_the_depths(tokenizer, layers, pooling):
    encoder = backbone(num_layers=5)
    preprocessor = ka.AlbertPreprocessor(tokenizer, sequence_length=32)
    model = ka.AlbertTextEmbedder(encoder, preprocessor, layers=layers, pooling=pooling)
    received = model.predict(TEXTS, batch_size=2, verbose=0)
    for text, row in zip(TEXTS, received, strict=True):
        x = preprocessor([text])
        n = int(to_numpy(x["padding_mask"]).sum())
        x = {name: to_numpy(value)[:, :n] for name, value in x.items()}  # no padding at all
        h = encoder.embedding(x["token_ids"], segment_ids=x["segment_ids"])
        depths = [to_numpy(d)[0] for d in encoder.encoder(h, return_all_layers=True)]
        expected = {
            "last": depths[4],
            "second_to_last": depths[3],
            "sum_last_four": depths[1] + depths[2] + depths[3] + depths[4],
            "concat_last_four": np.concatenate(depths[1:], axis=-1),
        }[layers]
        if pooling == "mean":
            expected = expected.mean(0)
        row = row[:n] if pooling is None else row
        expected = expected[0] if pooling == "cls" else expected
        np.testing.assert_allclose(row, expected, rtol=0, atol=1e-5)


def test_an_embedder_is_frozen_and_saved(tokenizer, tmp_path):
    preprocessor = ka.AlbertPreprocessor(tokenizer, sequence_length=32)
    model = ka.AlbertTextEmbedder(backbone(), preprocessor, normalize=True)
    assert not model.trainable_variables
    vectors = model.predict(TEXTS, verbose=0)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=-1), 1, rtol=1e-5)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded.predict(TEXTS, verbose=0), vectors, rtol=0, atol=1e-6)
    with pytest.raises(ValueError, match="nothing to train"):
        model.fit(TEXTS, LABELS)


@pytest.mark.parametrize(
    "task",
    # What is frozen and merged is in the backbone, whatever the head on it.
    [
        name if name == "tags" else pytest.param(name, marks=pytest.mark.backend_free)
        for name in TASKS
    ],
)
def test_lora_trains_the_updates_and_the_head_alone_and_merges(tokenizer, task):
    make, x, y = TASKS[task]
    model = make(tokenizer)
    before = outputs(model, x)
    model.backbone.enable_lora(rank=2)
    same(outputs(model, x), before, 1e-6)  # the updates start at zero
    of_backbone = {id(v) for v in model.backbone.trainable_variables}
    assert {v.name for v in model.backbone.trainable_variables} == {
        "lora_kernel_a",
        "lora_kernel_b",
    }
    assert len(of_backbone) == 4 and len(model.trainable_variables) > 4
    frozen = [(v, to_numpy(v.value)) for v in model.non_trainable_variables]
    model.compile(learning_rate=1e-2)
    model.fit(x, y, epochs=5, batch_size=16, verbose=0)
    for variable, value in frozen:
        if "seed" not in variable.path:
            np.testing.assert_array_equal(to_numpy(variable.value), value, err_msg=variable.path)
    after = outputs(model, x)
    merged = model.merge_lora()
    same(outputs(merged, x), after)
    assert merged.count_params() == make(tokenizer).count_params()
    first = [keras.tree.flatten(outputs)[0] for outputs in (after, before)]
    assert np.abs(first[0] - first[1]).max() > 1e-3


def test_a_frozen_encoder_trains_the_head_alone(tokenizer):
    model = classifier(tokenizer)
    model.backbone.trainable = False
    model.compile(learning_rate=1e-2)
    before = [to_numpy(v.value) for v in model.backbone.variables]
    kernel = to_numpy(model.classifier.kernel)
    model.fit(TEXTS, LABELS, epochs=2, verbose=0)
    for variable, value in zip(model.backbone.variables, before, strict=True):
        if "seed" not in variable.path:
            np.testing.assert_array_equal(to_numpy(variable.value), value)
    assert np.abs(to_numpy(model.classifier.kernel) - kernel).max() > 1e-3


def test_lora_needs_a_rank_and_a_layer():
    with pytest.raises(ValueError, match="an integer of at least 1"):
        backbone().enable_lora(0)
    with pytest.raises(ValueError, match="must name Dense layers"):
        backbone().enable_lora(2, target_layer_names=["querry"])
