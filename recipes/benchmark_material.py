"""What the sides of `keras-albert benchmark peers` are given: weights, examples; and the machine.

Weights are of transformers' models, random by a seed, so that every side loads them by its own
conversion. Examples are ids: tokenizers are not measured.
"""

import csv
import json
import pathlib
import shutil
import time

import numpy as np
from keras_albert_recipes.benchmark_cases import SETS

WORDS = {"SST-2": ((2, 30),), "QNLI": ((6, 18), (12, 60)), "SQuAD": ((6, 18), (60, 250))}


def prepare(spec):
    """Write weights and examples under `spec["folder"]`: what the parent needs to know of both."""
    from keras_albert.models import presets

    folder, data = pathlib.Path(spec["folder"]), spec["source"] and pathlib.Path(spec["source"])
    config = presets.PRESETS.get(spec["preset"], {"sharing": None})
    if config["sharing"] != "all":
        raise ValueError(f"`preset` must be a size of ALBERT. Received: {spec['preset']!r}")
    vocabulary = data and data / "vocab" / "albert_spiece_30k-clean.model"
    has_data = bool(vocabulary) and vocabulary.is_file()
    tokenizer = own_tokenizer(folder, vocabulary if has_data else None, spec["seed"])
    for model, depths in spec["depths"].items():
        for layers in {config["num_layers"], *depths}:
            write_weights(folder / f"{model}-{layers}", model, config, layers, spec["seed"])
            shutil.copy(folder / "spiece.model", folder / f"{model}-{layers}")
    lengths = {}
    source, longest = data if has_data else None, config["max_sequence_length"]
    for name in spec["sets"]:
        lengths[name] = write_examples(folder, name, source, tokenizer, spec, longest)
    return {
        "sizes": {name: dict(presets.PRESETS[name]) for name in {spec["preset"], *spec["sizes"]}},
        "lengths": lengths,
        "has_data": has_data,
        **machine(spec["dtype"]),
    }


def own_tokenizer(folder, vocabulary, seed):
    """The encoder of a vocabulary, which is put into the folder; a new one of generated text."""
    import keras_albert as ka

    path = folder / "spiece.model"
    if vocabulary:
        shutil.copy(vocabulary, path)
    else:
        ka.AlbertTokenizer.train([str(write_text(folder / "text", seed))], 1_000, path)
    return ka.AlbertTokenizer(path)


def write_text(path, seed):
    """Lines of made-up words, some of them frequent."""
    rng = np.random.default_rng(seed)
    letters = np.array(list("etaoinshrdlucmfwypvbgk"))
    words = ["".join(rng.choice(letters, length)) for length in rng.integers(2, 9, 2_000)]
    lines = (rng.pareto(1.0, (1_500, 20)) * 20).astype(int) % len(words)
    path.write_text("\n".join(" ".join(words[i] for i in line) for line in lines))
    return path


def write_weights(folder, model, config, layers, seed):
    """A directory as transformers saves it."""
    import torch
    import transformers

    cls = {
        "pretrainer": transformers.AlbertForPreTraining,
        "classifier": transformers.AlbertForSequenceClassification,
    }[model]
    torch.manual_seed(seed)
    cls(
        transformers.AlbertConfig(
            vocab_size=config["vocabulary_size"],
            embedding_size=config["embedding_dim"],
            hidden_size=config["hidden_dim"],
            num_hidden_layers=layers,
            num_attention_heads=config["num_heads"],
            intermediate_size=config["intermediate_dim"],
            max_position_embeddings=config["max_sequence_length"],
            type_vocab_size=config["num_segments"],
            hidden_act="gelu_new",
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            classifier_dropout_prob=0.0,
            num_labels=2,
        )
    ).save_pretrained(folder)


def write_examples(folder, name, data, tokenizer, spec, longest):
    """Write a list of examples for all sides: how many tokens each has."""
    from keras_albert.preprocessing.packing import SegmentPacker
    from keras_albert.preprocessing.rows import packed_length

    limit, size, share = SETS[name]
    limit = min(limit, longest)
    count = max(2 * size, int(spec["examples"] * share) // size * size)
    rng = np.random.default_rng(spec["seed"])
    texts = read(name, data) if data else generate(name, 4 * count, folder / "text", rng)
    chosen = [texts[i] for i in rng.permutation(len(texts))[:count]]
    rows = [tuple(tokenizer.encode_batch(list(text))) for text in chosen]
    labels = rng.integers(0, 2, count).astype("int32")
    packer = SegmentPacker(
        limit,
        start_value=tokenizer.cls_token_id,
        end_value=tokenizer.sep_token_id,
        pad_value=tokenizer.pad_token_id,
    )
    np.savez(folder / f"{name}.npz", **packer.pack(rows, limit), labels=labels, batch=size)
    pairs = [[row, int(label)] for row, label in zip(rows, labels, strict=True)]
    (folder / f"{name}.json").write_text(json.dumps(pairs))
    return {"tokens": [min(packed_length(row), limit) for row in rows], "batch": size}


def read(name, data):
    """Tuples of one or two texts, of the original files."""
    if name == "SQuAD":
        articles = json.loads((data / "squad" / "ship_v1.1_10articles.json").read_text())["data"]
        paragraphs = [paragraph for article in articles for paragraph in article["paragraphs"]]
        return [(qa["question"], p["context"]) for p in paragraphs for qa in p["qas"]]
    path, columns = {
        "SST-2": ("SST-2/train.tsv", (0,)),
        "QNLI": ("QNLI/sample.tsv", (1, 2)),
    }[name]
    with open(data / "glue" / path, encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]
    return [tuple(row[column] for column in columns) for row in rows]


def generate(name, count, path, rng):
    """Texts of about such lengths, of generated words."""
    words = path.read_text(encoding="utf-8").split()
    found = []
    for _ in range(count):
        texts = []
        for least, most in WORDS[name]:
            start = int(rng.integers(len(words) - most))
            length = int(least + (most - least) * rng.beta(1.5, 3.0))  # most are short
            texts.append(" ".join(words[start : start + length]))
        found.append(tuple(texts))
    return found


def machine(dtype):
    """The device's name, and how fast it is."""
    import platform

    import torch

    cuda = torch.cuda.is_available()
    device = torch.cuda.get_device_name() if cuda else platform.processor() or platform.machine()
    return {"device": device, "cuda": cuda, "peak": matrix_peak(dtype, 2.0)}


def matrix_peak(dtype, seconds=0.5):
    """Operations a second of a large product of matrices in PyTorch: the best of several."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    kind = torch.bfloat16 if dtype == "mixed_bfloat16" else torch.float32
    size = 8192 if device == "cuda" else 2048
    x = torch.full((size, size), 0.5, dtype=kind, device=device)
    best, began = float("inf"), time.perf_counter()
    while time.perf_counter() - began < seconds:
        start = time.perf_counter()
        (x @ x)[0, 0].item()  # waits for the device
        best = min(best, time.perf_counter() - start)
    return 2.0 * size**3 / best
