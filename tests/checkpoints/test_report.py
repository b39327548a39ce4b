"""Oracle: what a checkpoint was made of. The recipe is the report and the writers, by command."""

import numpy as np
import pytest

import keras_albert
from keras_albert.checkpoints import load as load_model
from keras_albert.checkpoints import load_tokenizer, report, to_huggingface, to_preset
from recipes import checkpoint as recipe
from tests.checkpoints.conftest import WORDS, assert_same_weights, load, make, make_bert


@pytest.fixture(scope="module")
def worded():
    tokenizer = keras_albert.BertTokenizer(WORDS)
    preprocessor = keras_albert.AlbertPretrainerPreprocessor(tokenizer, sequence_length=16)
    return make_bert(preprocessor=preprocessor, vocabulary_size=len(WORDS), num_layers=2)


def rewrite(path, change):
    from safetensors.numpy import load_file, save_file

    tensors = load_file(path / "model.safetensors")
    change(tensors)
    save_file(tensors, path / "model.safetensors")


def test_a_report_names_everything(tmp_path):
    model = make(num_layers=2)
    to_huggingface(model, tmp_path / "in")
    whole = report(tmp_path / "in")
    assert whole.parameters == model.count_params() and len(whole.variables) == len(model.weights)
    assert whole.architecture["embedding_dim"] == 7 and whole.format == "huggingface"
    assert not (whole.missing or whole.unexpected or whole.nonfinite or whole.mismatched)
    theirs, their_shape, ours, our_shape = next(v for v in whole.variables if "_in.weight" in v[0])
    assert theirs == "albert.encoder.embedding_hidden_mapping_in.weight"
    assert ours == "backbone.embedding.projection.kernel"
    assert (their_shape, our_shape) == ((12, 7), (7, 12))

    def change(tensors):
        del tensors["sop_classifier.classifier.weight"], tensors["sop_classifier.classifier.bias"]
        tensors["scorer.weight"] = np.ones((3, 12), "float32")
        tensors["albert.pooler.bias"] = np.full(12, np.nan, "float32")
        tensors["predictions.bias"] = np.ones(52, "float32")

    rewrite(tmp_path / "in", change)
    found = report(tmp_path / "in")
    assert found.missing == ["sentence_head"]
    assert found.unexpected == [("scorer.weight", (3, 12))]
    assert found.nonfinite == ["albert.pooler.bias"]
    assert found.mismatched == [("predictions.bias", (52,), "masked_lm_head.bias", (53,))]
    assert report(tmp_path / "in", check_finite=False).nonfinite is None
    text = str(found)
    for line in (
        "missing (newly initialised in a model that has them): sentence_head",
        "unexpected (not used): scorer.weight (3, 12)",
        "NON-FINITE: albert.pooler.bias",
        "  predictions.bias (52), masked_lm_head.bias; (53)",
        "  albert.encoder.embedding_hidden_mapping_in.weight (12, 7) -> "
        "backbone.embedding.projection.kernel (7, 12)",
        "  embedding_dim = 7",
    ):
        assert line in text.splitlines(), line
    # Both names and both shapes stand in the error too.
    with pytest.raises(ValueError, match=r"'predictions.bias' of shape \(52,\).*'masked.*\(53,\)"):
        load(tmp_path / "in", strict=False)


def test_nonfinite_weights_are_loaded_when_asked_for(worded, tmp_path):
    to_huggingface(worded, tmp_path / "in")
    rewrite(tmp_path / "in", lambda t: t["bert.pooler.dense.bias"].__setitem__(0, np.inf))
    with pytest.raises(ValueError, match="must be finite.*'bert.pooler.dense.bias'"):
        load(tmp_path / "in")
    model = load(tmp_path / "in", allow_nonfinite=True)
    model.save_to_preset(str(tmp_path / "own"))
    with pytest.raises(ValueError, match="must be finite.*pooler"):
        load(tmp_path / "own")
    load(tmp_path / "own", allow_nonfinite=True)


def test_the_recipe_describes_and_converts(worded, tmp_path, capsys):
    source = _saved(worded, tmp_path)
    chain = [source]
    for to in ("huggingface", "keras", "huggingface"):
        target = tmp_path / f"{len(chain)}_{to}"
        recipe.main(["convert", str(chain[-1]), str(target), "--to", to])
        chain.append(target)
    assert "AlbertPretrainer, " in capsys.readouterr().out
    assert_same_weights(load(chain[-1]), worded)
    assert load_tokenizer(chain[-1]).get_vocabulary() == WORDS
    # Written twice from the same weights: the same bytes.
    for name in ("model.safetensors", "config.json", "vocab.txt"):
        assert (chain[1] / name).read_bytes() == (chain[-1] / name).read_bytes()
    recipe.main(["inspect", str(chain[-1])])
    assert "bert.pooler.dense.weight (12, 12) -> backbone.pooler.dense.kernel (12, 12)" in (
        capsys.readouterr().out
    )
    with pytest.raises(ValueError, match="activations"):  # Google has no exact gelu
        recipe.main(["convert", str(source), str(tmp_path / "google"), "--to", "google"])
    assert not (tmp_path / "google").exists()


def test_a_loaded_model_trains_as_the_one_that_was_written(worded, tmp_path):
    x, y, weight = worded.preprocessor(["the cat sat on the mat."] * 2, y=np.array([0, 1]))
    to_huggingface(worded, tmp_path / "hf")
    models = [
        keras_albert.AlbertPretrainer.from_preset(path, strict=True)
        for path in (tmp_path / "hf", _saved(worded, tmp_path))
    ]
    losses = [[float(m.train_on_batch(x, y, weight)[0]) for _ in range(3)] for m in models]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)
    assert losses[0][2] != losses[0][0]
    assert_same_weights(*models, atol=1e-6)


def _saved(model, tmp_path):
    to_preset(model, tmp_path / "own")
    return tmp_path / "own"


def test_a_backbone_keeps_its_vocabulary(worded, tmp_path):
    tokenizer = worded.preprocessor.tokenizer
    to_huggingface(worded.backbone, tmp_path / "hf", tokenizer=tokenizer)
    model = load_model(tmp_path / "hf")
    assert isinstance(model, keras_albert.AlbertBackbone)
    to_preset(model, tmp_path / "own", tokenizer=load_tokenizer(tmp_path / "hf"))
    assert load_tokenizer(tmp_path / "own").get_vocabulary() == WORDS
    assert_same_weights(load_model(tmp_path / "own"), worded.backbone)
    assert report(tmp_path / "own").parameters == worded.backbone.count_params()
    # Heads that a preset of our own lacks are named too.
    with pytest.warns(UserWarning, match="newly initialised: masked_lm_head, sentence_head$"):
        load(tmp_path / "own", strict=False)
    with pytest.raises(ValueError, match="strict=True.*masked_lm_head, sentence_head"):
        load(tmp_path / "own")


def test_written_whole_or_not_at_all(worded, tmp_path, monkeypatch):
    from keras_albert.checkpoints import writing

    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "precious").write_text("kept")
    with pytest.raises(ValueError, match="new or empty.*full"):
        to_huggingface(worded, tmp_path / "full")

    def fail(*_):
        raise OSError("the disk is full")

    monkeypatch.setattr(writing, "write_safetensors", fail)
    with pytest.raises(OSError, match="disk is full"):
        to_huggingface(worded, tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["full"]
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["precious"]
