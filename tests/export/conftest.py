"""Small models of every task with both tokenizers, and their exports, made once each."""

import keras
import numpy as np
import pytest

import keras_albert as ka
from tests.preprocessing.conftest import CORPUS, SIZES

LENGTH = 24
TEXTS = [
    "The quick brown fox jumped over the lazy dog.",
    "",
    "Café déjà vu in 2010, 2011, and 7,000,000 francs",
    b"not \xff\xfe UTF-8",
    "  white\u00a0space\t and   so on  ",
    "over the lazy dog and " * 40,
]


def make_tokenizer(kind):
    return kind.train(iter(CORPUS), SIZES[kind])


def backbone(tokenizer):
    return ka.AlbertBackbone(
        vocabulary_size=tokenizer.vocabulary_size(),
        num_layers=1,
        num_heads=2,
        embedding_dim=8,
        hidden_dim=12,
        intermediate_dim=16,
        max_sequence_length=64,
        initializer_range=0.5,  # larger than in use, so that differences show
    )


def classifier(tokenizer):
    preprocessor = ka.AlbertPreprocessor(tokenizer, sequence_length=LENGTH)
    names = ["no", "yes", "naïve"]
    model = ka.AlbertTextClassifier(backbone(tokenizer), 3, preprocessor, class_names=names)
    return centred(model, (texts_of(64), texts_of(64, seed=1)))


def texts_of(count, seed=0):
    """Texts of 0 to 60 words."""
    rng = np.random.default_rng(seed)
    words = "the quick brown fox (so they say) jumped over 1,000 lazy dogs in 2010, Café".split()
    return [" ".join(rng.choice(words, rng.integers(0, 60))) for _ in range(count)]


def centred(model, texts):
    """The model with a bias by which no class is always the best."""
    logits = model.predict(texts, verbose=0)
    model.classifier.bias.assign(-np.median(logits.reshape(-1, 3), axis=0))
    return model


def regression(tokenizer):
    preprocessor = ka.AlbertPreprocessor(tokenizer, sequence_length=LENGTH)
    return ka.AlbertTextClassifier(backbone(tokenizer), 1, preprocessor)


def embedder(tokenizer):
    preprocessor = ka.AlbertPreprocessor(tokenizer, sequence_length=LENGTH)
    return ka.AlbertTextEmbedder(backbone(tokenizer), preprocessor, normalize=True)


def tagger(tokenizer):
    preprocessor = ka.AlbertTokenClassifierPreprocessor(tokenizer, sequence_length=LENGTH)
    names = ["O", "B-PER", "B-LOC"]
    return centred(
        ka.AlbertTokenClassifier(backbone(tokenizer), 3, preprocessor, class_names=names),
        ["the quick brown fox (so they say)", "jumped over 1,000 lazy dogs"],
    )


def chooser(tokenizer):
    preprocessor = ka.AlbertMultipleChoicePreprocessor(
        tokenizer, sequence_length=LENGTH, option_length=8
    )
    return ka.AlbertMultipleChoice(backbone(tokenizer), preprocessor)


def filler(tokenizer):
    preprocessor = ka.AlbertPretrainerPreprocessor(tokenizer, sequence_length=LENGTH)
    return ka.AlbertPretrainer(backbone(tokenizer), preprocessor)


def extractor(tokenizer, head="linear"):
    preprocessor = ka.AlbertSpanExtractorPreprocessor(
        tokenizer, sequence_length=LENGTH, max_query_length=8, doc_stride=6
    )
    return ka.AlbertSpanExtractor(backbone(tokenizer), preprocessor, head=head)


def beam_extractor(tokenizer):
    return extractor(tokenizer, "beam")


class Exports:
    """Makes a task's model and its export when first asked for."""

    def __init__(self, folder):
        self.folder = folder
        self.made = {}
        self.tokenizers = {}

    def __call__(self, task, kind, pair=False):
        """The model, the version directory, and what TensorFlow loads from it."""
        import tensorflow as tf

        if kind not in self.tokenizers:
            self.tokenizers[kind] = make_tokenizer(kind)
        key = (task.__name__, kind.__name__, pair)
        if key not in self.made:
            keras.utils.set_random_seed(1)
            model = task(self.tokenizers[kind])
            directory = self.folder / "-".join(map(str, key)) / "1"
            shorter = {"sequence_length": 10} if task is regression else {}
            ka.export.saved_model(model, directory, pair=pair, **shorter)
            if shorter:  # what it is compared with
                model.preprocessor = ka.AlbertPreprocessor(self.tokenizers[kind], **shorter)
            self.made[key] = model, directory, tf.saved_model.load(str(directory))
        return self.made[key]


@pytest.fixture(scope="session")
def exports(tmp_path_factory):
    pytest.importorskip("tensorflow")
    pytest.importorskip("tensorflow_text")
    return Exports(tmp_path_factory.mktemp("served"))
