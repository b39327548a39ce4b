"""The rows of `test_public_errors.py` for the models of fine-tuning and what goes with them."""

import keras_albert as ka
from keras_albert import layers

COUNT = [(v, "must be an integer of at least 1") for v in (0, -1, 2.5, "4", None, True)]
RATE = [(v, "must be a dropout rate") for v in (1.0, -0.1, "0.1", None, float("nan"))]
ABOVE_0 = [(v, "must be a number above 0") for v in (0, -1e-6, "small", None, float("inf"))]
INITIALIZER = [(v, "must be a keras.initializers.Initializer") for v in ("normale", 3, 0.02, print)]
LENGTH = [(v, "`sequence_length` must leave room") for v in (3, "8", 8.0, None)]
TOKENIZER = [(v, "`tokenizer` .*AlbertTokenizer") for v in (None, "spiece.model")]
TRUNCATE = [(v, "`truncate` must be one of") for v in ("first", None)]
BOOLEAN = [(v, "must be True or False") for v in ("yes", 1, None)]
BACKBONE = [(v, "`backbone` must be a keras_albert") for v in (None, "albert_tiny")]
NAMES = [(v, "different strings") for v in (["a"], ["a", "a"], "ab", [1, 2])]
PATH = [(v, "must be a directory's path") for v in (None, 3, ["run"])]
MISSPELT = [(3, "has no argument")]


def task(cls, **needed):
    return lambda m, **k: cls(
        **{"backbone": ka.AlbertBackbone.from_config(m.backbone.get_config()), **needed, **k}
    )


def preprocessor(cls):
    return lambda m, **k: cls(**{"tokenizer": m.tokenizer, **k})


def not_a(kind):
    return [(v, kind) for v in ("a", ka.BertTokenizer())]


def fitted(m):
    backbone = ka.AlbertBackbone.from_config(m.backbone.get_config())
    return ka.AlbertTextClassifier(
        backbone, 2, ka.AlbertPreprocessor(m.tokenizer, sequence_length=16)
    )


RIGHT_TASKS = {
    "AdamW": lambda m, **k: ka.AdamW(**k),
    "AlbertTextClassifier": task(ka.AlbertTextClassifier, num_classes=2),
    "AlbertTextClassifier.fit": lambda m, **k: fitted(m).fit(
        **{"x": ["a cat", "the mat"], "y": [0, 1], "verbose": 0, **k}
    ),
    "AlbertMultipleChoice": task(ka.AlbertMultipleChoice),
    "AlbertTokenClassifier": task(ka.AlbertTokenClassifier, num_classes=2),
    "AlbertSpanExtractor": task(ka.AlbertSpanExtractor),
    "AlbertTextEmbedder": task(ka.AlbertTextEmbedder),
    "AlbertMultipleChoicePreprocessor": preprocessor(ka.AlbertMultipleChoicePreprocessor),
    "AlbertTokenClassifierPreprocessor": preprocessor(ka.AlbertTokenClassifierPreprocessor),
    "AlbertSpanExtractorPreprocessor": preprocessor(ka.AlbertSpanExtractorPreprocessor),
    "BeamSpanHead": lambda m, **k: layers.BeamSpanHead(**k),
    "LinearSpanHead": lambda m, **k: layers.LinearSpanHead(**k),
    "FoldOptions": lambda m, **k: layers.FoldOptions(**k),
    "SkipNonFinite": lambda m, **k: ka.SkipNonFinite(**{"optimizer": ka.Lamb(), **k}),
    "TrainingLog": lambda m, **k: ka.TrainingLog(**{"directory": m.directory / "run", **k}),
    "TrainingState": lambda m, **k: ka.TrainingState(**{"directory": m.directory / "run", **k}),
    "UnfoldScores": lambda m, **k: layers.UnfoldScores(**k),
}

WRONG_TASKS = {
    "AdamW": {
        "learning_rate": [("x", "must be a number of at least 0")],
        "weight_decay": [("x", "must be a number of at least 0"), (-1, "must be a number of at")],
        "exclude": [(3, "a regular expression"), ("(", "does not compile")],
        "epsilon": ABOVE_0,
        "global_clipnorm": [(v, "above 0, or None") for v in (0, "x")],
    },
    "AlbertTextClassifier": {
        "backbone": BACKBONE,
        "num_classes": COUNT,
        "preprocessor": not_a("AlbertPreprocessor"),
        "dropout": RATE,
        "early_exit": BOOLEAN,
        "patience": [
            *((v, "must be None or an integer of at least 1") for v in (0, 1.5, "2", True)),
            (2, "`patience` needs a trained head"),
        ],
        "exit_threshold": ABOVE_0,
        "class_names": NAMES,
        "num_clases": MISSPELT,
    },
    "AlbertTextClassifier.fit": {
        "x": [(v, "`x` must be") for v in (None, 3, [1, 2], ["a", None])],
        "y": [(None, "must hold a label"), ([0], "as many of each"), ([0, 2], "from 0 to 1")],
        "batch_size": [(v, "must be an integer of at least 1") for v in (0, 1.5, "8")],
        "sample_weight": [([1.0], "as many of each")],
        "validation_data": [(v, "or a dataset") for v in (["text"], "shards/", 3)],
        "validation_split": [(v, "in .0, 1.") for v in (1.0, -0.1)],
        "shuffle": BOOLEAN,
        "packing": BOOLEAN,
    },
    "AlbertMultipleChoice": {
        "backbone": BACKBONE,
        "preprocessor": not_a("AlbertMultipleChoicePreprocessor"),
        "dropout": RATE,
        "dropot": MISSPELT,
    },
    "AlbertTokenClassifier": {
        "backbone": BACKBONE,
        "num_classes": COUNT,
        "preprocessor": not_a("AlbertTokenClassifierPreprocessor"),
        "dropout": RATE,
        "class_names": NAMES,
        "num_clases": MISSPELT,
    },
    "AlbertSpanExtractor": {
        "backbone": BACKBONE,
        "preprocessor": not_a("AlbertSpanExtractorPreprocessor"),
        "head": [(v, "`head` must be one of") for v in ("bert", None)],
        "null_threshold": [(v, "a number, or None") for v in ("x", float("nan"))],
        "heads": MISSPELT,
    },
    "AlbertTextEmbedder": {
        "backbone": BACKBONE,
        "preprocessor": not_a("AlbertPreprocessor"),
        "layers": [(v, "must be one of") for v in ("first", None)],
        "pooling": [(v, "must be one of") for v in ("max", 3)],
        "normalize": BOOLEAN,
        "pool": MISSPELT,
    },
    "AlbertMultipleChoicePreprocessor": {
        "tokenizer": TOKENIZER,
        "sequence_length": LENGTH,
        "option_length": COUNT,
    },
    "AlbertTokenClassifierPreprocessor": {"tokenizer": TOKENIZER, "sequence_length": LENGTH},
    "AlbertSpanExtractorPreprocessor": {
        "tokenizer": TOKENIZER,
        "sequence_length": [*LENGTH, (6, "at least 7")],
        "doc_stride": COUNT,
        "max_query_length": [(v, "must be an integer of at least 1") for v in (0, 2.5, "4")],
    },
    "BeamSpanHead": {
        "beam_size": COUNT,
        "dropout": RATE,
        "layer_norm_epsilon": ABOVE_0,
        "kernel_initializer": INITIALIZER,
    },
    "SkipNonFinite": {"optimizer": [(v, "must be a keras optimizer") for v in (None, "lamb")]},
    "TrainingLog": {
        "directory": PATH,
        "every": COUNT,
        "limit": COUNT,
        "spike": [(v, "GradientWatch") for v in (0, "x")],
        "tokens_per_step": [(v, "None or a number of at least 0") for v in (-1, "x")],
        "peak": [(v, "None or a number of at least 0") for v in (-1, "x")],
    },
    "TrainingState": {
        "directory": PATH,
        "every": [(v, "None or an integer of at least 1") for v in (0, 1.5, "9")],
        "keep": COUNT,
        "keep_every": [(v, "None or an integer of at least 1") for v in (0, 1.5, "9")],
        "monitor": [(3, "None or a name in the logs")],
        "mode": [(v, "'min' or 'max'") for v in ("least", None)],
    },
    "LinearSpanHead": {"kernel_initializer": INITIALIZER},
}
