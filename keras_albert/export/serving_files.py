"""What stands beside an export: the server's configuration, and clients to start from.

Source: TensorFlow Serving's guides, "Configuration" and "RESTful API".
"""

import json
import os
from pathlib import Path

_CONFIG = """\
model_config_list {{
  config {{
    name: "{name}"
    base_path: "/models/{name}"
    model_platform: "tensorflow"
  }}
}}
"""

_COMPOSE = """\
services:
  serving:
    image: tensorflow/serving
    command: --model_config_file=/models/models.config{batching}
    ports: ["8500:8500", "8501:8501"]
    volumes: ["./:/models:ro"]
"""

_REST = '''\
"""Ask the server over REST: python client_rest.py; needs `pip install requests`."""

import requests

URL = "http://localhost:8501/v1/models/{name}:predict"
INPUTS = {inputs}

answer = requests.post(URL, json={{"inputs": INPUTS}}, timeout=30)
answer.raise_for_status()
print(answer.json()["outputs"])
'''

_GRPC = '''\
"""Ask the server over gRPC: python client_grpc.py; needs `pip install tensorflow-serving-api`."""

import grpc
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

INPUTS = {inputs}

request = predict_pb2.PredictRequest()
request.model_spec.name = "{name}"
request.model_spec.signature_name = "serving_default"
for key, values in INPUTS.items():
    request.inputs[key].CopyFrom(tf.make_tensor_proto(values, tf.string))
with grpc.insecure_channel("localhost:8500") as channel:
    stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    answer = stub.Predict(request, timeout=30)
for key, value in answer.outputs.items():
    print(key, tf.make_ndarray(value).tolist())
'''

_EXAMPLES = {
    "text": ["The first text.", "The second one."],
    "text_pair": ["Its pair.", "And another."],
    "question": ["Who wrote it?"],
    "context": ["Ada Lovelace wrote it in 1843."],
    "options": [["One option.", "Another option."]],
}


_BATCHING = " --enable_batching --batching_parameters_file=/models/batching.config"


def write_serving_files(
    root: str | os.PathLike, name: str, inputs, batching: bool = False
) -> list[Path]:
    """Write `models.config`, `docker-compose.yaml` and two clients, each whole or not at all.

    `docker compose up` in `root` then serves `root/name`.

    Args:
        root: the directory that holds `name`, in which the versions are.
        name: the model's name: letters, digits, "-", "_" and ".".
        inputs: the names of its string inputs, as `serve_check` gives them.
        batching: whether the server reads `batching.config`; see `export.batching`.

    Returns:
        The paths of the four files.
    """
    examples = {key: _EXAMPLES[key] for key in inputs}
    fields = {
        "name": name,
        "inputs": json.dumps(examples, ensure_ascii=False),
        "batching": _BATCHING if batching else "",
    }
    files = {
        "models.config": _CONFIG,
        "docker-compose.yaml": _COMPOSE,
        "client_rest.py": _REST,
        "client_grpc.py": _GRPC,
    }
    written = []
    for file, template in files.items():
        path = Path(root, file)
        beside = path.with_name(f".{file}.partial")
        beside.write_text(template.format(**fields), encoding="utf-8")
        os.replace(beside, path)
        written.append(path)
    return written
