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
    return centred(ka.AlbertTextClassifier(backbone(tokenizer), 3, preprocessor, class_names=names))


def centred(model):
    """The model with a bias by which no class is always the best."""
    logits = model.predict([text for text in TEXTS if isinstance(text, str) and text], verbose=0)
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
        ka.AlbertTokenClassifier(backbone(tokenizer), 3, preprocessor, class_names=names)
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
            ka.export.saved_model(model, directory, pair=pair)
            self.made[key] = model, directory, tf.saved_model.load(str(directory))
        return self.made[key]


@pytest.fixture(scope="session")
def exports(tmp_path_factory):
    pytest.importorskip("tensorflow")
    pytest.importorskip("tensorflow_text")
    import keras_albert.export as export

    ka.export = export
    return Exports(tmp_path_factory.mktemp("served"))
