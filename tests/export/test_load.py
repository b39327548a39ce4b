"""Oracle: the Keras model's own answers, under 2,000 requests from threads, some of them broken."""

import importlib.util
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from tests.export import conftest as tasks
from tests.export.conftest import texts_of
from tests.export.test_saved_model import ALBERT

pytestmark = [pytest.mark.backend_free, pytest.mark.slow]

REQUESTS = 2_000
BROKEN = ("signature", "missing", "unknown", "type", "uneven", "bytes")


@pytest.fixture
def server(exports):
    """The model, a function that asks the server, and one that gives its resident bytes."""
    grpc = pytest.importorskip("grpc")
    apis = pytest.importorskip("tensorflow_serving.apis.prediction_service_pb2_grpc")
    model, directory, _ = exports(tasks.classifier, ALBERT, pair=True)
    from keras_albert.export.allowed_ops import TEXT_OPS

    ops = Path(importlib.util.find_spec("tensorflow_text").origin).parent / "python" / "ops"
    libraries = [ops / f"{name}.so" for name in sorted(set(TEXT_OPS.values()))]
    program = Path(__file__).with_name("loopback_server.py")
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    with subprocess.Popen(
        [sys.executable, "-P", program, directory, *libraries],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        try:
            port = int(process.stdout.readline())
            with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
                stub = apis.PredictionServiceStub(channel)

                def memory():
                    pages = Path(f"/proc/{process.pid}/statm").read_text().split()[1]
                    return int(pages) * os.sysconf("SC_PAGE_SIZE")

                yield model, lambda request: stub.Predict(request, timeout=60), memory
        finally:
            process.stdin.close()
            process.wait(30)


def request_of(first, second, broken=None):
    import tensorflow as tf
    from tensorflow_serving.apis import predict_pb2

    request = predict_pb2.PredictRequest()
    request.model_spec.name = "albert"
    request.model_spec.signature_name = "nothing" if broken == "signature" else "serving_default"
    columns = {"text": first, "text_pair": second}
    if broken == "missing":
        del columns["text_pair"]
    if broken == "unknown":
        columns["more"] = first
    if broken == "uneven":
        columns["text_pair"] = [*second, "one more"]
    for name, values in columns.items():
        request.inputs[name].CopyFrom(tf.make_tensor_proto(values, tf.string))
    if broken == "type":
        request.inputs["text"].CopyFrom(tf.make_tensor_proto([1] * len(first), tf.int32))
    if broken == "bytes":
        request.inputs["text"].tensor_content = b"\xff\xff"
        del request.inputs["text"].string_val[:]
    return request


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_server_under_load_answers_right_or_says_what_is_wrong(server):
    import grpc
    import tensorflow as tf

    model, ask, memory = server
    pool = [*texts_of(120), "", "é\u0301", "dog " * 3_000]
    first, second = np.array(pool, object), np.array(pool[::-1], object)
    expected = model.predict((list(first), list(second)), verbose=0)
    rng = np.random.default_rng(0)
    jobs = []
    for number in range(REQUESTS):
        rows = rng.integers(0, len(pool), rng.integers(1, 9))
        jobs.append((rows, BROKEN[number // 10 % len(BROKEN)] if number % 10 == 0 else None))

    def do(job):
        rows, broken = job
        request = request_of(first[rows].tolist(), second[rows].tolist(), broken)
        try:
            answer = ask(request)
        except grpc.RpcError as error:
            return error.code() == grpc.StatusCode.INVALID_ARGUMENT and bool(error.details())
        logits = tf.make_ndarray(answer.outputs["logits"])
        np.testing.assert_allclose(logits, expected[rows], rtol=0, atol=1e-5)
        return False

    sizes = []
    with ThreadPoolExecutor(8) as threads:
        for at in range(0, REQUESTS, 500):
            some = jobs[at : at + 500]
            for (_, broken), refused in zip(some, threads.map(do, some), strict=True):
                assert refused == (broken is not None), broken
            sizes.append(memory())
    # The first hundreds fill what is kept; after them nothing is added.
    assert sizes[-1] < sizes[0] * 1.05, [f"{size / 1e6:.0f} MB" for size in sizes]
