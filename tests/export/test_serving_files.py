"""Oracles: the protos of tensorflow-serving-api, Python's compiler, the exports themselves."""

import functools
import importlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


SIZES = [1, 2, 4, 8, 16, 32]


@functools.cache
def batching_parameters():
    """The message of TensorFlow Serving's `session_bundle_config.proto`, which no package has."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, wrappers_pb2

    file = descriptor_pb2.FileDescriptorProto(name="batching.proto", syntax="proto3")
    file.dependency.append(wrappers_pb2.DESCRIPTOR.name)
    message = file.message_type.add(name="BatchingParameters")
    names = ("max_batch_size", "batch_timeout_micros", "max_enqueued_batches", "num_batch_threads")
    for number, name in enumerate(names, start=1):
        wrapper = ".google.protobuf.Int64Value"
        message.field.add(name=name, number=number, type=11, label=1, type_name=wrapper)
    message.field.add(name="allowed_batch_sizes", number=6, type=3, label=3)
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("BatchingParameters"))


@given(
    st.lists(st.floats(1e-4, 1.0), min_size=6, max_size=6),
    st.floats(1e-3, 2.0),
    st.integers(1, 64),
)
def test_batches_fit_the_time_that_a_request_may_take(seconds, budget, threads):
    from google.protobuf import text_format

    from keras_albert.export.batching import batching_config

    curve = dict(zip(SIZES, seconds, strict=True))
    text = batching_config(curve, budget, threads)
    config = text_format.Parse(text, batching_parameters()())
    best = config.max_batch_size.value
    allowed = list(config.allowed_batch_sizes)
    # What the server demands: ascending, and the last is the greatest.
    assert allowed == sorted(set(allowed)) and allowed[-1] == best
    wait = config.batch_timeout_micros.value / 1e6
    fitting = [size for size in SIZES if 2 * curve[size] <= budget]
    if fitting:
        assert wait + 2 * curve[best] <= budget + 1e-6  # it is rounded to microseconds
        assert best / curve[best] == max(size / curve[size] for size in fitting)
    else:
        assert (best, wait) == (1, 0)
    assert config.max_enqueued_batches.value >= 1
    assert config.num_batch_threads.value == threads


def test_a_curve_without_a_batch_of_one_is_refused():
    from keras_albert.export.batching import batching_config

    for arguments, message in (
        ({"curve": {2: 0.1}}, "1 among them"),
        ({"curve": {1: 0.0}}, "seconds above 0"),
        ({"budget": 0}, "a number above 0"),
    ):
        with pytest.raises(ValueError, match=message):
            batching_config(**{"curve": {1: 0.1}, "budget": 1.0, "num_threads": 2, **arguments})


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
    options = ["--pair", "--warmup", "1", "8", "--latency", "1000"]
    assert cli.main(["export", str(tmp_path / "model.keras"), str(served), *options]) == 0
    directory = served / "albert" / "7"
    printed = capsys.readouterr().out
    assert str(directory) in printed and "texts/s" in printed
    assert "max_batch_size" in (served / "batching.config").read_text()
    assert "--enable_batching" in (served / "docker-compose.yaml").read_text()
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

    # A file for onnxruntime.
    path = tmp_path / "model.onnx"
    assert cli.main(["export", str(tmp_path / "model.keras"), str(path)]) == 0
    size = f"model.onnx, {path.stat().st_size / 1e6:.1f} MB"
    assert size in capsys.readouterr().out
    assert cli.main(["export", str(tmp_path / "model.keras"), "x", "--quantize", "int8"]) == 1
    assert "--quantize is of a .onnx" in capsys.readouterr().err

    # A preset knows its task; a vocabulary that is swapped is named.
    model.save_to_preset(tmp_path / "preset")
    assert cli.main(["export", str(tmp_path / "preset"), str(served), "--name", "other"]) == 0
    vocabulary = served / "other" / "1" / "assets.extra" / "vocabulary.spm"
    vocabulary.write_bytes(vocabulary.read_bytes()[:-1])
    assert cli.main(["serve-check", str(served / "other" / "1")]) == 1
    assert "vocabulary.spm" in capsys.readouterr().err
