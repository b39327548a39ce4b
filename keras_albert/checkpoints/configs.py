"""The `config.json` of Hugging Face and the `albert_config.json` of Google, in and out.

Both use the same keys. They differ in what "gelu" means: Google's code computes it by the tanh
approximation, Hugging Face's "gelu" is the exact form and "gelu_new" the approximation.
"""

import re

from keras_albert.checkpoints.files import check_arguments

KEYS = {
    "vocab_size": "vocabulary_size",
    "num_hidden_layers": "num_layers",
    "num_attention_heads": "num_heads",
    "hidden_size": "hidden_dim",
    "intermediate_size": "intermediate_dim",
    "hidden_dropout_prob": "hidden_dropout",
    "attention_probs_dropout_prob": "attention_dropout",
    "max_position_embeddings": "max_sequence_length",
    "type_vocab_size": "num_segments",
    "initializer_range": "initializer_range",
}
ALBERT_KEYS = {
    "embedding_size": "embedding_dim",
    "num_hidden_groups": "num_groups",
    "inner_group_num": "num_inner_repetitions",
}
REQUIRED = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads")

ACTIVATIONS = {
    "huggingface": {
        "gelu": "gelu",
        "gelu_new": "gelu_tanh",
        "gelu_fast": "gelu_tanh",
        "gelu_pytorch_tanh": "gelu_tanh",
        "relu": "relu",
        "silu": "silu",
        "swish": "silu",
        "tanh": "tanh",
    },
    "google": {"gelu": "gelu_tanh", "relu": "relu", "tanh": "tanh"},
}
# Of forks of both programs; any other value changes what the weights mean.
_ONLY = {
    "ln_type": "postln",
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
    "net_structure_type": 0,
    "num_memory_blocks": 0,
}
_V2 = re.compile(r"albert[-_]x{0,2}(base|large)([-_]v|/)2\b")

# Depth and heads are in no tensor's shape: hidden size -> (layers, heads) of the released models.
RELEASED = {768: (12, 12), 1024: (24, 16), 2048: (24, 16), 4096: (12, 64)}


def to_arguments(config: dict, program: str, family: str, path, shapes: dict) -> dict:
    """Our arguments from a configuration of another program.

    Args:
        config: the parsed JSON.
        program: `"google"` or `"huggingface"`.
        family: `"albert"` or `"bert"`.
        path: for errors.
        shapes: name as in the table -> shape, for an embedding size that is not in the config.

    Raises:
        ValueError: a key is missing, out of bounds, or asks for what this architecture has not.
    """
    missing = [key for key in REQUIRED if key not in config]
    if missing:
        raise ValueError(
            f"The configuration of a checkpoint must have {REQUIRED}. Missing: {missing} in {path}"
        )
    for key, value in _ONLY.items():
        if config.get(key, value) not in (value, None):
            raise ValueError(
                f"A checkpoint with `{key}` other than {value!r} is another architecture, which "
                f"cannot be held here. Received: {config[key]!r} in {path}"
            )
    keys = {**KEYS, **(ALBERT_KEYS if family == "albert" else {})}
    arguments = {ours: config[key] for key, ours in keys.items() if key in config}
    activation = config.get("hidden_act", "gelu_new" if program == "huggingface" else "gelu")
    if not isinstance(activation, str) or activation not in ACTIVATIONS[program]:
        raise ValueError(
            f"`hidden_act` of a checkpoint must be one of {sorted(ACTIVATIONS[program])}. "
            f"Received: {activation!r} in {path}"
        )
    arguments["activation"] = ACTIVATIONS[program][activation]
    arguments.setdefault("intermediate_dim", 4 * _integer(arguments["hidden_dim"]))
    defaults = {"max_sequence_length": 512, "num_segments": 2}
    if program == "huggingface":
        arguments["layer_norm_epsilon"] = config.get("layer_norm_eps", 1e-12)
        # Hugging Face leaves out what has its default, and its defaults are these.
        dropout = 0.0 if family == "albert" else 0.1
        defaults |= {"hidden_dropout": dropout, "attention_dropout": dropout}
    for name, value in defaults.items():
        arguments.setdefault(name, value)
    if family == "bert":
        arguments |= {"embedding_dim": arguments["hidden_dim"], "sharing": "none"}
    else:
        arguments["sharing"] = "all"
        if "embedding_dim" not in arguments:
            table = next((s for name, s in shapes.items() if "word_embeddings" in name), ())
            arguments["embedding_dim"] = table[-1] if len(table) == 2 else 128
        if program == "huggingface" and arguments["embedding_dim"] == arguments["hidden_dim"]:
            arguments["project_embeddings"] = True
    return check_arguments(arguments, path)


def from_arguments(arguments: dict, program: str, family: str) -> dict:
    """The configuration that another program reads, from our arguments; see `to_arguments`.

    Raises:
        ValueError: the other program has no name for the activation.
    """
    keys = {**KEYS, **(ALBERT_KEYS if family == "albert" else {})}
    config = {key: arguments[ours] for key, ours in keys.items()}
    names = {ours: theirs for theirs, ours in reversed(ACTIVATIONS[program].items())}
    if program == "huggingface":
        names["gelu_tanh"] = "gelu_new"
        config["layer_norm_eps"] = arguments["layer_norm_epsilon"]
    if arguments["activation"] not in names:
        raise ValueError(
            f"A {program} checkpoint can have one of the activations {sorted(names)}. "
            f"Received: activation={arguments['activation']!r}"
        )
    return {**config, "hidden_act": names[arguments["activation"]]}


def infer_arguments(shapes: dict, given: dict, path) -> dict:
    """Arguments of Google's ALBERT from the shapes of its variables alone (TF-Hub has no config).

    Raises:
        ValueError: a variable is missing, or the depth cannot be known.
    """
    block = "bert/encoder/transformer/group_{}/inner_group_{}/ffn_1/intermediate/dense/kernel"
    try:
        vocabulary_size, embedding_dim = shapes["bert/embeddings/word_embeddings"]
        positions, _ = shapes["bert/embeddings/position_embeddings"]
        segments, _ = shapes["bert/embeddings/token_type_embeddings"]
        hidden_dim, intermediate_dim = shapes[block.format(0, 0)]
    except (KeyError, ValueError) as error:
        raise ValueError(
            "Without `albert_config.json`, the sizes are read from the variables. "
            f"Missing, or of another rank: {error} in {path}"
        ) from error
    groups = inner = 1
    while block.format(groups, 0) in shapes:
        groups += 1
    while block.format(0, inner) in shapes:
        inner += 1
    layers, heads = RELEASED.get(hidden_dim, (None, None))
    layers, heads = given.get("num_layers", layers), given.get("num_heads", heads)
    if layers is None or heads is None:
        raise ValueError(
            "Without `albert_config.json`, the depth and the heads of a model that is not one of "
            "the released sizes cannot be known: pass `num_layers` and `num_heads`. "
            f"Received: hidden size {hidden_dim} in {path}"
        )
    arguments = {
        "vocabulary_size": vocabulary_size,
        "num_layers": layers,
        "num_heads": heads,
        "embedding_dim": embedding_dim,
        "hidden_dim": hidden_dim,
        "intermediate_dim": intermediate_dim,
        "sharing": "all",
        "num_groups": groups,
        "num_inner_repetitions": inner,
        "activation": "gelu_tanh",
        "max_sequence_length": positions,
        "num_segments": segments,
    }
    return check_arguments(arguments, path)


def other_groups(arguments: dict) -> list[int]:
    """Depths at which Google's code, which finds their group in floating point, rounds down."""
    layers, groups = arguments["num_layers"], arguments.get("num_groups", 1)
    return [i for i in range(layers) if int(i / layers * groups) != i * groups // layers]


def dropout_note(name: str, arguments: dict) -> list[str]:
    """What to say of a v2 model whose configuration names a dropout that it was made without."""
    rates = [arguments.get(rate, 0.0) for rate in ("hidden_dropout", "attention_dropout")]
    if not any(rates) or not _V2.search(name):
        return []
    return [
        f"the configuration says dropout {rates[0]} and {rates[1]} (hidden, attention), but ALBERT "
        "v2 was trained without: pass hidden_dropout=0.0, attention_dropout=0.0 to do as the "
        "original"
    ]


# Hugging Face's class for a model of ours, without "Albert" or "Bert".
ARCHITECTURES = {
    "AlbertBackbone": "Model",
    "AlbertMultipleChoice": "ForMultipleChoice",
    "AlbertPretrainer": "ForPreTraining",
    "AlbertSpanExtractor": "ForQuestionAnswering",
    "AlbertTextClassifier": "ForSequenceClassification",
    "AlbertTokenClassifier": "ForTokenClassification",
}


def head_of(config: dict) -> tuple[str | None, dict]:
    """The class here, and the arguments of its head, that a `config.json` of transformers names."""
    named = config.get("architectures")
    named = named[0] if isinstance(named, list) and named else ""
    heads = {theirs: ours for ours, theirs in ARCHITECTURES.items() if theirs != "Model"}
    ours = next((ours for theirs, ours in heads.items() if str(named).endswith(theirs)), None)
    arguments = {}
    dropout = config.get("classifier_dropout_prob", config.get("classifier_dropout"))
    if isinstance(dropout, float) and 0 <= dropout < 1:
        arguments["dropout"] = dropout
    names = config.get("id2label")
    if isinstance(names, dict) and all(isinstance(name, str) for name in names.values()):
        by_id = [names.get(str(id)) for id in range(len(names))]
        # "LABEL_0" stands where nobody gave a name.
        if None not in by_id and by_id != [f"LABEL_{id}" for id in range(len(names))]:
            arguments["class_names"] = by_id
    return ours, arguments


def head_config(model, family: str) -> dict:
    """What `config.json` of transformers says of a model's head."""
    config = {}
    if hasattr(model, "dropout"):
        name = "classifier_dropout_prob" if family == "albert" else "classifier_dropout"
        config[name] = model.dropout
    if hasattr(model, "num_classes"):
        names = model.class_names or [f"LABEL_{id}" for id in range(model.num_classes)]
        config["id2label"] = {str(id): name for id, name in enumerate(names)}
        config["label2id"] = {name: id for id, name in enumerate(names)}
        if type(model).__name__ == "AlbertTextClassifier":
            kind = "regression" if model.num_classes == 1 else "single_label_classification"
            config["problem_type"] = kind
    return config


def _integer(value) -> int:
    return value if type(value) is int else 0
