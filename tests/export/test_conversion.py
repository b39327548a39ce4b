"""Oracle: the Keras model's own answers, whatever backend it is of."""

import keras
import numpy as np

from tests.export import conftest as tasks
from tests.export.conftest import texts_of
from tests.export.test_saved_model import ALBERT, as_examples, close, serve, strings


def test_a_classifier_of_pairs_answers_as_keras_does(exports):
    model, _, loaded = exports(tasks.classifier, ALBERT, pair=True)
    a, b = texts_of(64), texts_of(64, seed=1)
    expected = model.predict((a, b), verbose=0)
    for size in (1, 7, 64):
        served = serve(loaded, text=strings(a[:size]), text_pair=strings(b[:size]))
        close(served["logits"], expected[:size])
    close(served["probabilities"], keras.ops.softmax(expected))
    names = [name for name, _ in model.predict_classes((a, b), verbose=0)]
    assert [label.decode() for label in served["label"]] == names
    assert len(set(names)) > 1
    again = serve(loaded, "examples", examples=as_examples(text=a, text_pair=b))
    for name, value in served.items():
        np.testing.assert_array_equal(again[name], value)
