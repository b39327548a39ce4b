"""Oracles: the protos of tensorflow-serving-api, Python's compiler, the exports themselves."""

import importlib

import pytest

from tests.export import conftest as tasks
from tests.export.test_saved_model import ALBERT, serve, strings

pytestmark = pytest.mark.backend_free


@pytest.fixture(scope="module")
def config_proto():
    pytest.importorskip("tensorflow")
    name = "tensorflow_serving.config.model_server_config_pb2"
    return pytest.importorskip(name).ModelServerConfig


def test_the_server_finds_the_model_by_its_config(tmp_path, config_proto):
    from google.protobuf import text_format

    from keras_albert.export.serving_files import write_serving_files

    written = write_serving_files(tmp_path, "albert-qa", {"question": [None], "context": [None]})
    assert sorted(tmp_path.iterdir()) == sorted(written)
    config = text_format.Parse((tmp_path / "models.config").read_text(), config_proto())
    (model,) = config.model_config_list.config
    assert (model.name, model.base_path) == ("albert-qa", "/models/albert-qa")
    for client in tmp_path.glob("*.py"):
        text = client.read_text(encoding="utf-8")
        compile(text, str(client), "exec")
        assert "albert-qa" in text
        assert '"question": [' in text and '"context": [' in text


@pytest.mark.slow
def test_from_a_file_to_a_checked_export(tmp_path, capsys):
    """The command line, and requests for warming up that the export answers."""
    tf = pytest.importorskip("tensorflow")
    pytest.importorskip("tensorflow_text")
    logs = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
    cli = importlib.import_module("keras_albert_recipes.__main__")
    model = tasks.classifier(tasks.make_tokenizer(ALBERT))
    model.save(tmp_path / "model.keras")
    served = tmp_path / "served"
    (served / "albert" / "6").mkdir(parents=True)
    options = ["--pair", "--warmup", "1", "8"]
    assert cli.main(["export", str(tmp_path / "model.keras"), str(served), *options]) == 0
    directory = served / "albert" / "7"
    assert str(directory) in capsys.readouterr().out
    assert cli.main(["serve-check", str(directory)]) == 0
    assert "AlbertTextClassifier" in capsys.readouterr().out

    loaded = tf.saved_model.load(str(directory))
    path = directory / "assets.extra" / "tf_serving_warmup_requests"
    sizes = []
    for record in tf.data.TFRecordDataset(str(path)):
        request = logs.PredictionLog.FromString(record.numpy()).predict_log.request
        assert request.model_spec.signature_name == "serving_default"
        fed = {name: tf.make_ndarray(value) for name, value in request.inputs.items()}
        fed = {name: strings(value) for name, value in fed.items()}
        sizes.append(len(serve(loaded, **fed)["label"]))
    assert sizes == [1, 8]

    # A preset knows its task; a vocabulary that is swapped is named.
    model.save_to_preset(tmp_path / "preset")
    assert cli.main(["export", str(tmp_path / "preset"), str(served), "--name", "other"]) == 0
    vocabulary = served / "other" / "1" / "assets.extra" / "vocabulary.spm"
    vocabulary.write_bytes(vocabulary.read_bytes()[:-1])
    assert cli.main(["serve-check", str(served / "other" / "1")]) == 1
    assert "vocabulary.spm" in capsys.readouterr().err
