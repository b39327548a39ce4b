"""Oracle: the Keras model's own answers; the program is C and has TensorFlow's library alone."""

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import ROOT
from tests.export import conftest as tasks
from tests.export.conftest import TEXTS, texts_of
from tests.export.test_saved_model import ALBERT, BERT, CONTEXTS, close

pytestmark = pytest.mark.backend_free


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    """Runs the compiled program: a function of an export and of strings by input."""
    tf = pytest.importorskip("tensorflow")
    text = pytest.importorskip("tensorflow_text")
    if not shutil.which("gcc"):
        pytest.skip("gcc is not installed")
    from keras_albert.export.allowed_ops import TEXT_OPS
    from keras_albert.export.manifest import read_about

    program = tmp_path_factory.mktemp("c") / "serve_check"
    library = Path(tf.__file__).parent
    subprocess.run(
        ["gcc", "-std=c11", "-O1", "-Wall", "-Wextra", "-Werror"]
        + [str(ROOT / "recipes" / "serve_check.c"), f"-I{library}/include", f"-L{library}"]
        + [f"-Wl,-rpath,{library}", "-l:libtensorflow_cc.so.2"]
        + ["-l:libtensorflow_framework.so.2", "-o", str(program)],
        check=True,
    )
    folder = Path(text.__file__).parent / "python" / "ops"

    def run(directory, status=0, **inputs):
        ops = read_about(directory)["ops"]
        libraries = sorted({TEXT_OPS[op] for op in ops if op in TEXT_OPS})
        command = [program, directory, *(folder / f"{name}.so" for name in libraries)]
        for name, values in inputs.items():
            command += ["--", name, *values]
        result = subprocess.run(command, capture_output=True)
        assert result.returncode == status, result.stderr.decode()[-2000:]
        return result.stderr.decode() if status else parsed(result.stdout.decode("ascii"))

    return run


def parsed(printed):
    """The program's lines as arrays; strings are bytes."""
    outputs = {}
    for line in printed.splitlines():
        name, shape, values = re.fullmatch(r"(\w+) \[([\d, ]*)\](.*)", line).groups()
        if '"' in values:
            found = re.findall(r'"([^"]*)"', values)
            values = [text.encode().decode("unicode_escape").encode("latin-1") for text in found]
            values = np.array(values, dtype=object)
        else:
            values = np.array(values.split(), float)
        outputs[name] = values.reshape([int(axis) for axis in shape.split(",")])
    return outputs


def test_strings_are_answered_without_python(exports, ask):
    model, directory, _ = exports(tasks.classifier, ALBERT, pair=True)
    first = [text for text in TEXTS if isinstance(text, str)] + texts_of(8)
    second = first[::-1]
    answers = ask(directory, text=first, text_pair=second)
    close(answers["logits"], model.predict((first, second), verbose=0))
    names = [name for name, _ in model.predict_classes((first, second), verbose=0)]
    assert [label.decode() for label in answers["label"]] == names
    assert "no such input" in ask(directory, status=1, words=["a"])


@pytest.mark.slow
def test_questions_are_answered_without_python(exports, ask):
    model, directory, _ = exports(tasks.extractor, BERT)
    questions = ["What did they say of the fox that jumped over the dog?", "When?", "", "x", "Who?"]
    answers = ask(directory, question=questions, context=CONTEXTS)
    expected = model.answer((questions, CONTEXTS), verbose=0)
    assert [answer.decode() for answer in answers["answer"]] == [e.text for e in expected]
    assert answers["start"].tolist() == [e.start for e in expected]


def test_what_is_no_export_is_named(tmp_path, exports, ask):
    _, directory, _ = exports(tasks.classifier, ALBERT, pair=True)
    copy = tmp_path / "1"
    shutil.copytree(directory, copy)
    (copy / "saved_model.pb").unlink()
    assert str(copy) in ask(copy, status=1, text=["a"], text_pair=["b"])
