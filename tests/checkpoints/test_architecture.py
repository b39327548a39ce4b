"""Oracles: identical outputs where nothing may change, a closed form for positions, kept rows."""

import numpy as np
import pytest

import keras_albert
from keras_albert.checkpoints import change_architecture, to_huggingface
from keras_albert.checkpoints.architecture import stretch
from tests.checkpoints.conftest import (
    WORDS,
    assert_same_outputs,
    batch,
    load,
    make,
    make_bert,
    outputs,
)
from tests.conftest import to_numpy


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"sharing": "none"}),
        ({}, {"sharing": "attention"}),
        ({}, {"sharing": "ffn"}),
        ({}, {"num_groups": 2}),
        ({"num_groups": 2, "num_inner_repetitions": 2}, {"sharing": "ffn"}),
        ({"num_groups": 2}, {"num_groups": 4}),
        ({"sharing": "attention"}, {"sharing": "none"}),
        ({"sharing": "none"}, {"sharing": "all", "num_groups": 4}),
    ],
)
def test_unsharing_changes_no_output(before, after):
    model = make(**before)
    changed = change_architecture(model, **after)
    assert_same_outputs(changed, model, atol=0)
    same = after.get("sharing") == "all" or before.get("sharing") == "none"
    assert same or changed.count_params() > model.count_params()


@pytest.mark.parametrize("num_layers", [2, 8])
def test_another_depth_applies_the_same_block(num_layers):
    model = make()
    deeper = change_architecture(model, num_layers=num_layers)
    assert deeper.count_params() == model.count_params()
    x = batch()
    backbone = model.backbone
    hidden = backbone.embedding(x["token_ids"], segment_ids=x["segment_ids"])
    for _ in range(num_layers):
        hidden = backbone.encoder.block_0_0(hidden, attention_mask=x["padding_mask"])
    received = outputs(deeper.backbone)["sequence_output"]
    np.testing.assert_allclose(received, to_numpy(hidden), rtol=0, atol=1e-5)


def test_another_depth_without_sharing_spreads_the_old_ones():
    model = make_bert()
    deeper = change_architecture(model, num_layers=8)
    for depth in range(8):
        for kind in ("attention", "feed_forward"):
            new = getattr(deeper.backbone.encoder, f"{kind}_{depth}")
            old = getattr(model.backbone.encoder, f"{kind}_{depth // 2}")
            for a, b in zip(new.weights, old.weights, strict=True):
                np.testing.assert_array_equal(to_numpy(a.value), to_numpy(b.value))
    # Every second one again: the model that it came from.
    assert_same_outputs(change_architecture(deeper, num_layers=4), model, atol=0)


def test_positions():
    table = np.array([[0.0, 5.0], [2.0, 5.0], [4.0, 11.0]], "float32")
    np.testing.assert_allclose(
        stretch(table, 5, "interpolate"), [[0, 5], [1, 5], [2, 5], [3, 8], [4, 11]], atol=1e-6
    )
    np.testing.assert_array_equal(stretch(table, 5, "tile"), table[[0, 1, 2, 0, 1]])
    np.testing.assert_array_equal(stretch(table, 2, "tile"), table[:2])
    np.testing.assert_array_equal(stretch(table[:1], 3, "interpolate"), table[[0, 0, 0]])
    model = make()
    longer = change_architecture(model, max_sequence_length=46, positions="tile")
    assert_same_outputs(longer, model, atol=0)  # the first positions are the old ones
    x = batch(length=40)
    assert outputs(longer, x)["mlm"].shape == (3, 40, 53)
    shorter = change_architecture(model, max_sequence_length=9)
    assert_same_outputs(shorter, model, atol=0)


@pytest.fixture(scope="module")
def worded():
    tokenizer = keras_albert.BertTokenizer(WORDS)
    preprocessor = keras_albert.AlbertPretrainerPreprocessor(tokenizer, sequence_length=16)
    return make(preprocessor=preprocessor, vocabulary_size=len(WORDS))


def test_a_new_vocabulary_keeps_the_rows_of_its_pieces(worded, proto):
    words = ["[PAD]", "new", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "mat", "other", "cat"]
    changed = change_architecture(worded, vocabulary=keras_albert.BertTokenizer(words))
    old, new = worded.backbone.token_embedding, changed.backbone.token_embedding
    old, new = to_numpy(old.embeddings.value), to_numpy(new.embeddings.value)
    biases = [to_numpy(model.masked_lm_head.bias.value) for model in (worded, changed)]
    for id, word in enumerate(words):
        if word in WORDS:
            np.testing.assert_array_equal(new[id], old[WORDS.index(word)])
            assert biases[1][id] == biases[0][WORDS.index(word)]
        else:
            assert not (new[id] == old).all(-1).any() and biases[1][id] == 0
    assert changed.preprocessor.tokenizer.get_vocabulary() == words
    # The same text in the words that both know: the same outputs.
    ids = {"token_ids": [[3, 6, 9, 4]], "segment_ids": [[0] * 4], "padding_mask": [[True] * 4]}
    x = {name: np.array(value) for name, value in ids.items()}
    before = {**x, "token_ids": np.array([[2, 9, 6, 3]])}
    one, other = outputs(changed.backbone, x), outputs(worded.backbone, before)
    np.testing.assert_array_equal(one["sequence_output"], other["sequence_output"])

    tokenizer = keras_albert.AlbertTokenizer(proto)  # the special tokens by their role
    pieces = change_architecture(worded, vocabulary=tokenizer)
    table = to_numpy(pieces.backbone.token_embedding.embeddings.value)
    for role in ("pad", "unk", "cls", "sep", "mask"):
        id = getattr(tokenizer, f"{role}_token_id")
        place = WORDS.index(f"[{role.upper()}]")
        np.testing.assert_array_equal(table[id], old[place])


def test_from_preset_changes_checkpoints_and_own_presets(worded, tmp_path):
    to_huggingface(worded, tmp_path / "hf")
    worded.save_to_preset(str(tmp_path / "own"))
    x = batch(vocabulary_size=len(WORDS))
    for path in (tmp_path / "hf", tmp_path / "own"):
        model = load(path, sharing="none", max_sequence_length=40, positions="tile")
        assert model.backbone.sharing == "none" and model.backbone.max_sequence_length == 40
        assert_same_outputs(model, worded, atol=1e-6, x=x)
        assert load(path, num_layers=8).backbone.num_layers == 8
        model = load(path, vocabulary=keras_albert.BertTokenizer([*WORDS, "dog"]))
        assert model.backbone.vocabulary_size == len(WORDS) + 1


def test_what_cannot_be_is_refused(worded):
    bert = make_bert()
    cases = [
        (bert, {"sharing": "all"}, "would have to be both attention_0 and attention_1"),
        (bert, {"sharing": "attention"}, "cannot be made to share them"),
        (make(num_groups=4), {"num_groups": 2}, "would have to be both"),
        (bert, {"positions": "mirror"}, "'interpolate' or 'tile'"),
        (bert, {"vocabulary": "vocab.txt"}, "No such file|existing file"),
        (bert, {"vocabulary": keras_albert.BertTokenizer(WORDS)}, "must have a preprocessor"),
        (bert, {"vocabulary": 3}, "`vocabulary` must be a tokenizer"),
        (bert, {"num_layers": 0}, "num_layers"),
        ("model", {}, "must be an AlbertBackbone, or a model with one"),
    ]
    for model, change, message in cases:
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            change_architecture(model, **change)
