"""Oracle: the rule that a wrong argument of a public name is refused, saying what to do.

`RIGHT` holds one call of every public name that works. `WRONG` holds, for every argument, mistakes
that replace that argument alone. The last test reads the signatures and finds what has no row.
"""

import inspect
import pathlib
import tempfile
import types

import keras
import numpy as np
import pytest

import keras_albert as ka
from keras_albert import checkpoints, layers, training
from tests.preprocessing.conftest import CORPUS
from tests.public_tasks import RIGHT_TASKS, WRONG_TASKS

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "cat", "sat", "on", "the", "mat", "."]
SIZES = {
    "vocabulary_size": 12,
    "num_layers": 2,
    "num_heads": 2,
    "embedding_dim": 8,
    "hidden_dim": 16,
    "intermediate_dim": 32,
    "max_sequence_length": 32,
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """What the calls need: a tokenizer, shards, models."""
    directory = tmp_path_factory.mktemp("public")
    tokenizer = ka.BertTokenizer(WORDS)
    documents = [["The cat sat on the mat.", "A cat sat."]] * 4
    manifest = ka.prepare_corpus(
        iter(documents), directory / "shards", tokenizer=tokenizer, progress=False
    )
    backbone = ka.AlbertBackbone(**SIZES)
    preprocessor = ka.AlbertPretrainerPreprocessor(tokenizer, sequence_length=16)
    x, y, _ = preprocessor(["a cat sat", "the mat"], y=np.zeros(2, "int32"))
    return types.SimpleNamespace(
        directory=directory,
        tokenizer=tokenizer,
        proto=ka.AlbertTokenizer.train(iter(CORPUS), 80).proto,
        manifest=manifest,
        backbone=backbone,
        preprocessor=preprocessor,
        model=ka.AlbertPretrainer(backbone, preprocessor),
        x=x,
        y=y,
    )


def from_preset(cls):
    return lambda m, **k: cls.from_preset(**{"preset": "albert_tiny", "load_weights": False, **k})


def mixed_dataset(m, **k):
    parts = [pretraining_dataset(m), pretraining_dataset(m, seed=1)]
    return ka.MixedDataset(**{"datasets": parts, "weights": [1, 2], **k})


def pretraining_dataset(m, **k):
    return ka.PretrainingDataset(**{"shards": m.directory / "shards", "sequence_length": 16, **k})


def write_tfrecords(m, **k):
    options = {"path": m.directory / "a.tfrecord", "overwrite": True, "progress": False, **k}
    return ka.write_tfrecords(**{"dataset": pretraining_dataset(m), **options})


def saved(m):
    """A preset of the small model."""
    if not (m.directory / "preset").exists():
        m.model.save_to_preset(str(m.directory / "preset"))
    return m.directory / "preset"


def written(function, place):
    def call(m, **k):
        if function is checkpoints.to_google:
            pytest.importorskip("tensorflow", reason="TensorFlow writes Google's format")
        elif function is checkpoints.to_huggingface:
            pytest.importorskip("safetensors")
        folder = pathlib.Path(tempfile.mkdtemp(dir=m.directory))
        return function(**{"model": m.model, place: folder / "new" / "model", **k})

    return call


def tfrecord_dataset(m, **k):
    write_tfrecords(m)
    return ka.TFRecordDataset(**{"files": m.directory / "a.tfrecord", "progress": False, **k})


# The right call of each name; keyword arguments replace its arguments.
RIGHT = {
    "AlbertBackbone": lambda m, **k: ka.AlbertBackbone(**{**SIZES, **k}),
    "AlbertBackbone.from_preset": from_preset(ka.AlbertBackbone),
    "AlbertPreprocessor": lambda m, **k: ka.AlbertPreprocessor(**{"tokenizer": m.tokenizer, **k}),
    "AlbertPretrainer": lambda m, **k: ka.AlbertPretrainer(**{"backbone": m.backbone, **k}),
    "AlbertPretrainer.from_preset": from_preset(ka.AlbertPretrainer),
    "AlbertPretrainer.fit": lambda m, **k: m.model.fit(**{"x": m.x, "y": m.y, "verbose": 0, **k}),
    "AlbertPretrainer.fill_mask": lambda m, **k: m.model.fill_mask(**{"text": "a [MASK]", **k}),
    "AlbertPretrainerPreprocessor": lambda m, **k: ka.AlbertPretrainerPreprocessor(
        **{"tokenizer": m.tokenizer, **k}
    ),
    "AlbertTokenizer": lambda m, **k: ka.AlbertTokenizer(**{"proto": m.proto, **k}),
    "AlbertTokenizer.encode_batch": lambda m, **k: ka.AlbertTokenizer(m.proto).encode_batch(
        **{"texts": ["a cat"], **k}
    ),
    "AlbertTokenizer.train": lambda m, **k: ka.AlbertTokenizer.train(
        **{"files": iter(CORPUS), "vocabulary_size": 80, **k}
    ),
    "BertTokenizer": lambda m, **k: ka.BertTokenizer(**{"vocabulary": WORDS, **k}),
    "BertTokenizer.encode_batch": lambda m, **k: m.tokenizer.encode_batch(
        **{"texts": ["a cat"], **k}
    ),
    "BertTokenizer.train": lambda m, **k: ka.BertTokenizer.train(
        **{"files": iter(CORPUS), "vocabulary_size": 150, **k}
    ),
    "Lamb": lambda m, **k: ka.Lamb(**k),
    "Manifest": lambda m, **k: ka.Manifest(**{**vars(m.manifest), **k}),
    "Manifest.load": lambda m, **k: ka.Manifest.load(**{"directory": m.directory / "shards", **k}),
    "Manifest.save": lambda m, **k: m.manifest.save(**{"directory": m.directory, **k}),
    "MaskedLMLoss": lambda m, **k: ka.MaskedLMLoss(**k),
    "NGramMaskGenerator": lambda m, **k: ka.NGramMaskGenerator(**{"tokenizer": m.tokenizer, **k}),
    "MixedDataset": mixed_dataset,
    "PretrainingDataset": pretraining_dataset,
    "PretrainingDataset.example": lambda m, **k: pretraining_dataset(m).example(
        **{"index": 0, **k}
    ),
    "SegmentPacker": lambda m, **k: ka.SegmentPacker(
        **{"sequence_length": 8, "start_value": 2, "end_value": 3, **k}
    ),
    "TFRecordDataset": tfrecord_dataset,
    "TFRecordDataset.example": lambda m, **k: tfrecord_dataset(m).example(**{"index": 0, **k}),
    "write_tfrecords": write_tfrecords,
    "F1Score": lambda m, **k: training.F1Score(**k),
    "MatthewsCorrelation": lambda m, **k: training.MatthewsCorrelation(**k),
    "PearsonCorrelation": lambda m, **k: training.PearsonCorrelation(**k),
    "SpearmanCorrelation": lambda m, **k: training.SpearmanCorrelation(**k),
    "WarmupPolynomialDecay": lambda m, **k: ka.WarmupPolynomialDecay(
        **{"learning_rate": 1e-3, "warmup_steps": 2, "total_steps": 8, **k}
    ),
    "load_google_checkpoint": lambda m, **k: checkpoints.load_google_checkpoint(
        **{"model": m.model, "prefix": "nowhere", **k}
    ),
    "prepare_corpus": lambda m, **k: ka.prepare_corpus(
        **{
            "files": iter(CORPUS),
            "output": m.directory / "more",
            "tokenizer": m.tokenizer,
            "overwrite": True,
            "progress": False,
            **k,
        }
    ),
    "load": lambda m, **k: checkpoints.load(**{"preset": saved(m), **k}),
    "load_tokenizer": lambda m, **k: checkpoints.load_tokenizer(**{"preset": saved(m), **k}),
    "report": lambda m, **k: checkpoints.report(**{"path": saved(m), **k}),
    "change_architecture": lambda m, **k: checkpoints.change_architecture(
        **{"model": m.model, "num_layers": 4, **k}
    ),
    "to_preset": written(checkpoints.to_preset, "directory"),
    "to_huggingface": written(checkpoints.to_huggingface, "directory"),
    "to_google": written(checkpoints.to_google, "prefix"),
    "read_documents": lambda m, **k: list(ka.read_documents(**{"files": iter(CORPUS), **k})),
    "EncoderStack": lambda m, **k: layers.EncoderStack(
        **{"num_layers": 2, "num_heads": 2, "intermediate_dim": 8, **k}
    ),
    "FactorizedEmbedding": lambda m, **k: layers.FactorizedEmbedding(
        **{"vocabulary_size": 9, "embedding_dim": 4, "hidden_dim": 8, **k}
    ),
    "FeedForward": lambda m, **k: layers.FeedForward(**{"intermediate_dim": 8, **k}),
    "MaskedLMHead": lambda m, **k: layers.MaskedLMHead(
        **{"token_embedding": m.backbone.token_embedding, **k}
    ),
    "Pooler": lambda m, **k: layers.Pooler(**k),
    "SelfAttention": lambda m, **k: layers.SelfAttention(**{"num_heads": 2, **k}),
    "SentenceOrderHead": lambda m, **k: layers.SentenceOrderHead(**k),
    "TransformerEncoder": lambda m, **k: layers.TransformerEncoder(
        **{"attention": layers.SelfAttention(2), "feed_forward": layers.FeedForward(8), **k}
    ),
    "keep_freed_memory": lambda m: training.keep_freed_memory(),
    "layout_map": lambda m, **k: ka.layout_map(
        **{"device_mesh": keras.distribution.DeviceMesh((1,), ("model",), ["cpu:0"]), **k}
    ),
    "sharing_plan": lambda m, **k: layers.sharing_plan(**{"sharing": "all", "num_layers": 4, **k}),
}
RIGHT |= RIGHT_TASKS
NEED_A_FILE = {"load_google_checkpoint"}  # whose right call is tested with a real checkpoint

# Mistakes that many arguments share: values, and the rule in the message.
COUNT = [(v, "must be an integer of at least 1") for v in (0, -1, 2.5, "4", None, True)]
BOOLEAN = [(v, "must be True or False") for v in ("yes", 1, None)]
RATE = [(v, "must be a dropout rate") for v in (1.0, -0.1, "0.1", None, float("nan"))]
ABOVE_0 = [(v, "must be a number above 0") for v in (0, -1e-6, "small", None, float("inf"))]
INITIALIZER = [(v, "must be a keras.initializers.Initializer") for v in ("normale", 3, 0.02, print)]
ACTIVATION = [(v, "must be 'gelu_tanh'") for v in ("golu", 3)]
SHARING = [(v, "`sharing` must be one of") for v in ("some", None, 1)]
GROUPS = [*COUNT, (3, "`num_groups` must divide")]
PATH = [(v, "must be a directory's path") for v in (None, 3, ["shards"])]
SEED = [(v, "must be an integer") for v in (None, "0", 0.5)]
TRUNCATE = [(v, "`truncate` must be one of") for v in ("first", None)]
LENGTH = [(v, "`sequence_length` must leave room") for v in (3, "8", 8.0, None)]
TOKENIZER = [(v, "`tokenizer` .*AlbertTokenizer") for v in (None, "spiece.model")]
MASK_RATE = [(v, r"`mask_rate` must be in \(0, 1\]") for v in (0, 1.5, "0.15", None)]
SLOTS = [(v, "`max_predictions` and `max_ngram` must be integers") for v in (0, 1.5, "3")]
ONE_OF_OBJECTIVES = [(v, "`objective` must be one of") for v in ("mlm", None)]
BETA = [(v, r"must be in \[0, 1\)") for v in (1.0, -0.1, "0.9", None)]
NOT_NEGATIVE = [(v, "must not be negative") for v in (-1, "x", None)]
DICT = [(v, "must be a dict") for v in (None, [])]
NUMBER = [(v, "must be an integer of at least 0") for v in (-1, "1", 1.5)]
PRESET = [(v, "`preset` must be a directory") for v in ("albert_base", None, 3)]
PRESET.append(("/no/such/directory", "There is nothing at"))
FILES = [(None, "iterable"), (3, "iterable"), ("/no/such/file", "No file found"), ([], "at least")]
TEXT_FIELD = [(v, "`text_field` must be") for v in ("", None, 3)]
ON_ERROR = [(v, "`on_error` must be") for v in ("ignore", None)]
OUTPUT = [(v, "must be None or a file's path") for v in (3, ".")]
TEXT_LIST = [([3], "must be a string"), ([None], "must be a string")]

WRONG = {
    "AlbertBackbone": {
        "vocabulary_size": COUNT,
        "num_layers": COUNT,
        "num_heads": [*COUNT, (3, "must divide the hidden size")],
        "embedding_dim": COUNT,
        "hidden_dim": COUNT,
        "intermediate_dim": COUNT,
        "sharing": SHARING,
        "num_groups": GROUPS,
        "num_inner_repetitions": COUNT,
        "hidden_dropout": RATE,
        "attention_dropout": RATE,
        "activation": ACTIVATION,
        "max_sequence_length": COUNT,
        "num_segments": COUNT,
        "layer_norm_epsilon": ABOVE_0,
        "initializer_range": ABOVE_0,
        "remat": BOOLEAN,
        "project_embeddings": [("no", "True, False or None"), (False, "Without a projection")],
        "dtype": [("flot16", "Cannot convert 'flot16'")],
        "num_layer": [(3, "has no argument `num_layer`")],
    },
    "AlbertBackbone.from_preset": {
        "preset": PRESET,
        "load_weights": [(True, "Pass `load_weights=False`"), *BOOLEAN],
        "layers": [(3, "has no argument `layers`")],
    },
    "AlbertPreprocessor": {"tokenizer": TOKENIZER, "sequence_length": LENGTH, "truncate": TRUNCATE},
    "AlbertPretrainer": {
        "backbone": [(v, "`backbone` must be a keras_albert") for v in (None, "albert_tiny")],
        "preprocessor": [(v, "AlbertPretrainerPreprocessor") for v in ("a", ka.BertTokenizer())],
        "objective": ONE_OF_OBJECTIVES,
        "objectiv": [("nsp", "has no argument `objectiv`")],
    },
    "AlbertPretrainer.from_preset": {
        "preset": PRESET,
        "load_weights": [(True, "Pass `load_weights=False`"), *BOOLEAN],
    },
    "AlbertPretrainer.fit": {
        "x": [(v, "`x` must be a `PretrainingDataset`") for v in (None, 3)],
        "y": [(None, "`y` must be given")],
        "batch_size": [(v, "must be an integer of at least 1") for v in (0, 1.5, "8")],
        "validation_data": [(v, "or a dataset") for v in (["text"], "shards/", 3)],
    },
    "AlbertPretrainer.fill_mask": {
        "text": [
            (3, "must be a string"),
            (["[MASK]", None], "must be a string"),
            ("a", "must hold"),
        ]
        + [(None, "must be a string"), ("[MASK]" * 40, "32 positions: shorten it")],
        "top_k": [(v, "must be an integer from 1") for v in (0, 13, 1.5, "5", None, True)],
    },
    "AlbertPretrainerPreprocessor": {
        "tokenizer": TOKENIZER,
        "sequence_length": LENGTH,
        "truncate": TRUNCATE,
        "max_ngram": [*SLOTS, (None, "must be integers")],
        "mask_rate": MASK_RATE,
        "max_predictions": SLOTS,
        "seed": SEED,
    },
    "AlbertTokenizer": {
        "proto": [(3, "must be the path"), (b"x", "must be a SentencePiece"), ("no", "existing")],
        "lowercase": BOOLEAN,
        "strip_accents": BOOLEAN,
        "split_digit_commas": BOOLEAN,
        "sequence_length": [(-1, "an integer of at least 1")],
    },
    "AlbertTokenizer.encode_batch": {"texts": TEXT_LIST},
    "AlbertTokenizer.train": {
        "files": FILES,
        "vocabulary_size": [*COUNT, (100_000, "at most"), (9, "every character|at least|cannot")],
        "output": OUTPUT,
        "character_coverage": [(v, "above 0 and at most 1") for v in (0, 1.5, "1", None)],
        "max_sentences": COUNT,
        "max_bytes": COUNT,
        "lowercase": BOOLEAN,
        "strip_accents": BOOLEAN,
        "split_digit_commas": BOOLEAN,
    },
    "BertTokenizer": {
        "vocabulary": [(3, "must be the path"), (["a"], "Missing"), ("no", "existing file")],
        "lowercase": BOOLEAN,
        "strip_accents": BOOLEAN[:2],
        "sequence_length": [("8", "an integer of at least 1")],
    },
    "BertTokenizer.encode_batch": {"texts": TEXT_LIST},
    "BertTokenizer.train": {
        "files": FILES,
        "vocabulary_size": [*COUNT, (100_000, "at most"), (9, "at least")],
        "output": OUTPUT,
        "max_characters": COUNT,
        "lowercase": BOOLEAN,
        "strip_accents": BOOLEAN[:2],
    },
    "Lamb": {
        "learning_rate": [(v, "must be a number of at least 0") for v in (-1.0, "fast", None)],
        "weight_decay": NOT_NEGATIVE[:2],
        "beta_1": BETA,
        "beta_2": BETA,
        "epsilon": [(v, "`epsilon` must be above 0") for v in (0, -1, "x", None)],
        "exclude": [(["("], "does not compile")]
        + [(v, "must be a regular expression") for v in (None, [3], 3)],
        "global_clipnorm": [(v, "must be a number above 0, or None") for v in (0, -1.0, "1")],
    },
    "Manifest": {
        "tokenizer": DICT,
        "token_dtype": [("int8", "must be 'uint16' or"), (None, "must be 'uint16' or")],
        "num_documents": NUMBER,
        "num_sentences": NUMBER,
        "num_tokens": NUMBER,
        "num_records": NUMBER,
        "shards": [(v, "must be a list of dicts") for v in ("shards/", None, ["a"])],
        "settings": DICT,
        "inputs": DICT,
        "versions": DICT,
        "format_version": NUMBER,
    },
    "Manifest.load": {"directory": [*PATH, ("/no/such", "must hold manifest.json")]},
    "Manifest.save": {"directory": [(v, "an existing directory") for v in ("/no/such", "")]},
    "NGramMaskGenerator": {
        "tokenizer": TOKENIZER,
        "max_ngram": [*SLOTS, (None, "must be integers")],
        "mask_rate": MASK_RATE,
        "max_predictions": SLOTS,
        "whole_words": BOOLEAN,
        "seed": SEED,
    },
    "MixedDataset": {
        "datasets": [(v, "at least two datasets without `static`") for v in (None, [], ["a", "b"])],
        "weights": [(v, "a positive number for each") for v in (None, [1], [1, 0], [1, "2"])],
        "batch_size": COUNT,
        "seed": SEED,
        "packing": BOOLEAN,
        "process_index": [*NUMBER, (1, "must be below `num_processes`")],
        "num_processes": [*COUNT, (3, "a multiple of it")],
        "prefetch": NUMBER,
    },
    "PretrainingDataset": {
        "shards": [*PATH, ("/no/such", "must hold manifest.json")],
        "sequence_length": [*COUNT, (4, "must be >= 5")],
        "batch_size": COUNT,
        "objective": ONE_OF_OBJECTIVES,
        "max_ngram": [*SLOTS, (None, "must be integers")],
        "seed": SEED,
        "mask_rate": MASK_RATE,
        "max_predictions": SLOTS,
        "short_sequence_probability": [(v, r"must be in \[0, 1\]") for v in (-1, 2, "x", None)],
        "whole_words": BOOLEAN,
        "static": BOOLEAN,
        "shuffle": BOOLEAN,
        "dupe_factor": [(v, "must be None or an integer of at least 1") for v in (0, 1.5, "2")],
        "packing": BOOLEAN,
        "process_index": [*NUMBER, (1, "must be below `num_processes`")],
        "num_processes": [*COUNT, (3, "a multiple of it")],
        "legacy": BOOLEAN,
        "tokenizer": [("spiece.model", "a tokenizer of this package, or None")],
        "verify": BOOLEAN,
        "prefetch": NUMBER,
        "workers": NUMBER,
        "use_multiprocessing": BOOLEAN,
        "max_queue_size": COUNT,
    },
    "PretrainingDataset.example": {
        "index": [(v, "`index` must be an integer in") for v in (-1, 10**6, "0", 0.5)],
        "epoch": [(v, "`epoch` one of at least 0") for v in (-1, "0", None)],
    },
    "SegmentPacker": {
        "sequence_length": LENGTH,
        "start_value": [*NUMBER, (None, "must be an integer")],
        "end_value": [*NUMBER, (None, "must be an integer")],
        "pad_value": [*NUMBER, (None, "must be an integer")],
        "truncate": TRUNCATE,
        "seed": NUMBER,
    },
    "TFRecordDataset": {
        "files": [(3, "must be a path"), ("nowhere", "No file found"), ([3], "must be a path")],
        "batch_size": COUNT,
        "sequence_length": [(0, "an integer of at least 1"), (512, "16")],
        "max_predictions": [(0, "an integer of at least 1"), (99, "99")],
        "objective": ONE_OF_OBJECTIVES,
        "seed": SEED,
        "static": BOOLEAN,
        "shuffle": BOOLEAN,
        "vocabulary_size": [(v, "an integer of at least 1") for v in (0, "30", 1.5)],
        "packing": BOOLEAN,
        "process_index": [*NUMBER, (1, "must be below `num_processes`")],
        "num_processes": [*COUNT, (3, "a multiple of it")],
        "progress": BOOLEAN,
        "prefetch": NUMBER,
        "workers": NUMBER,
        "use_multiprocessing": BOOLEAN,
        "max_queue_size": COUNT,
    },
    "TFRecordDataset.example": {"index": [(v, "`index`") for v in (-1, 10**6, "0", 0.5)]},
    "write_tfrecords": {
        "dataset": [(v, "PretrainingDataset") for v in (1, None, "shards")],
        "path": [(v, "must be a") for v in (3, None)],
        "num_files": [*COUNT, (10**6, "num_files")],
        "epochs": COUNT,
        "overwrite": BOOLEAN,
        "progress": BOOLEAN,
    },
    **{
        name: {"dtype": [("flot16", "must be a float dtype")]}
        for name in ("F1Score", "MatthewsCorrelation", "PearsonCorrelation")
    },
    "SpearmanCorrelation": {"capacity": COUNT, "dtype": [("flot16", "must be a float dtype")]},
    "WarmupPolynomialDecay": {
        "learning_rate": NOT_NEGATIVE,
        "warmup_steps": [*NUMBER, (8, "must be less than `total_steps`")],
        "total_steps": COUNT,
        "power": ABOVE_0,
        "end_learning_rate": NOT_NEGATIVE,
    },
    "load_google_checkpoint": {
        "model": [(v, "must be a keras_albert.AlbertPretrainer") for v in (None, "albert")],
        "prefix": [(None, "must be a path"), ("nowhere", "without its `.index` ending")],
    },
    "prepare_corpus": {
        "files": FILES,
        "output": [*PATH, (__file__, "must be a directory")],
        "tokenizer": [*TOKENIZER, (ka.BertTokenizer(), "[Nn]o vocabulary")],
        "sentences": [(v, "`sentences` must be a language code") for v in ("English", None, 3)],
        "document_separator": [(v, "must be one of") for v in ("page", None)],
        "holdout": [(v, "at least 0 and below 1") for v in (1.0, -0.1, "0.1", None)],
        "max_document_tokens": [(v, "integer from 8") for v in (7, 70_000, "9", 8.5, None)],
        "shard_tokens": COUNT,
        "text_field": TEXT_FIELD,
        "on_error": ON_ERROR,
        "drop_duplicates": BOOLEAN,
        "num_workers": [(v, "must be an integer of at least 1") for v in (0, -1, 1.5, "2")],
        "overwrite": BOOLEAN,
        "progress": BOOLEAN,
    },
    "load": {"preset": [(v, "must be a path or handle") for v in (3, None)]},
    "load_tokenizer": {"preset": [(v, "must be a path or handle") for v in (3, None)]},
    "report": {
        "path": [(v, "must be a path or handle") for v in (3, None)],
        "check_finite": BOOLEAN,
    },
    "change_architecture": {
        "model": [(v, "`model` of change_architecture must be") for v in ("x", None)],
        "num_layers": [(v, "must be an integer of at least 1") for v in (0, 1.5, "4")],
        "sharing": [(v, "`sharing` must be one of") for v in ("some", 1)],
        "num_groups": [(3, "`num_groups` must divide"), (0, "must be an integer of at least 1")],
        "max_sequence_length": [(v, "must be an integer of at least 1") for v in (0, 1.5)],
        "positions": [(v, "`positions`") for v in ("x", None)],
        "vocabulary": [(3, "`vocabulary`")],
    },
    **{
        name: {
            "model": [(v, "`model` of") for v in (3, None)],
            place: [(v, "must be a") for v in (3, None)],
            "tokenizer": [("x", "`tokenizer` of")],
        }
        for name, place in (
            ("to_preset", "directory"),
            ("to_huggingface", "directory"),
            ("to_google", "prefix"),
        )
    },
    "read_documents": {
        "files": FILES,
        "document_separator": [(v, "must be one of") for v in ("page", None)],
        "sentences": [(v, "`sentences` must be a language code") for v in ("English", None, 3)],
        "text_field": TEXT_FIELD,
        "on_error": ON_ERROR,
    },
    "EncoderStack": {
        "num_layers": COUNT,
        "num_heads": COUNT,
        "intermediate_dim": COUNT,
        "sharing": SHARING,
        "num_groups": GROUPS,
        "num_inner_repetitions": COUNT,
        "activation": ACTIVATION,
        "hidden_dropout": RATE,
        "attention_dropout": RATE,
        "layer_norm_epsilon": ABOVE_0,
        "initializer_range": ABOVE_0,
        "remat": BOOLEAN,
    },
    "FactorizedEmbedding": {
        "vocabulary_size": COUNT,
        "embedding_dim": COUNT,
        "hidden_dim": COUNT,
        "max_sequence_length": COUNT,
        "num_segments": COUNT,
        "dropout": RATE,
        "layer_norm_epsilon": ABOVE_0,
        "initializer_range": ABOVE_0,
        "project": [("no", "True, False or None"), (False, "Without a projection")],
    },
    "FeedForward": {
        "intermediate_dim": COUNT,
        "activation": ACTIVATION,
        "hidden_dropout": RATE,
        "layer_norm_epsilon": ABOVE_0,
        "kernel_initializer": INITIALIZER,
    },
    "MaskedLMHead": {
        "token_embedding": [(v, "must be a keras.layers.ReversibleEmbedding") for v in (None, 30)],
        "activation": ACTIVATION,
        "layer_norm_epsilon": ABOVE_0,
        "kernel_initializer": INITIALIZER,
    },
    "Pooler": {"kernel_initializer": INITIALIZER},
    "SelfAttention": {
        "num_heads": COUNT,
        "hidden_dropout": RATE,
        "attention_dropout": RATE,
        "layer_norm_epsilon": ABOVE_0,
        "kernel_initializer": INITIALIZER,
    },
    "SentenceOrderHead": {"kernel_initializer": INITIALIZER},
    "TransformerEncoder": {
        "attention": [(v, "SelfAttention") for v in (None, 2, layers.FeedForward(8))],
        "feed_forward": [(v, "FeedForward") for v in (None, 8, layers.SelfAttention(2))],
    },
    "layout_map": {
        "device_mesh": [("gpu:0", "must be a keras.distribution.DeviceMesh")],
        "axis": [("no", "the name of an axis of the mesh")],
    },
    "sharing_plan": {
        "sharing": SHARING,
        "num_layers": COUNT,
        "num_groups": GROUPS,
        "num_inner_repetitions": COUNT,
    },
}
WRONG |= WRONG_TASKS
EXEMPT = {"name": "any name will do, and Keras checks it"}
# Messages that say what to do without "Received": those of Keras and KerasHub among them.
WITHOUT_RECEIVED = (
    "There is nothing at: '/no/such/directory'",
    "Cannot convert 'flot16'",
    "Unknown preset identifier",
    "No vocabulary has been set",
    "No file found for: '/no/such/file'",
    "No file found for: 'nowhere'",
    "Pass `load_weights=False` for random weights",
)


@pytest.mark.parametrize("name", sorted(set(RIGHT) - NEED_A_FILE))
def test_the_right_call_works(made, name):
    RIGHT[name](made)


@pytest.mark.parametrize(
    ("name", "argument"), [(name, argument) for name in WRONG for argument in WRONG[name]]
)
def test_a_wrong_argument_is_refused(made, name, argument):
    for value, message in WRONG[name][argument]:
        # FileNotFoundError: a vocabulary file that is not there.
        with pytest.raises((ValueError, FileNotFoundError), match=message) as info:
            RIGHT[name](made, **{argument: value})
        text = str(info.value)
        assert "Received" in text or any(part in text for part in WITHOUT_RECEIVED), (value, text)


def public():
    """(name, its signature) of every public class, function and method that users call."""
    seen = {}
    for module in (ka, layers, training, checkpoints):
        for name in module.__all__:
            thing = getattr(module, name)
            if not isinstance(thing, (types.ModuleType, str)):
                seen[name] = inspect.signature(thing)
    for name in (name for name in RIGHT if "." in name):
        cls, method = name.split(".")
        signature = inspect.signature(getattr(getattr(ka, cls), method))
        seen[name] = signature
    return seen


def test_every_argument_of_every_public_name_has_a_row():
    kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)  # Keras' own
    missing = [
        (name, argument)
        for name, signature in public().items()
        for argument, parameter in signature.parameters.items()
        if parameter.kind not in kinds
        and argument not in {"self", *EXEMPT}
        and argument not in WRONG.get(name, {})
    ]
    assert not missing
