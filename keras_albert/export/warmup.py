"""Requests that TensorFlow Serving runs when it loads an export, so that the first user waits less.

Source: TensorFlow Serving's guide, "SavedModel Warmup".
"""

from pathlib import Path

import numpy as np

FILE = "tf_serving_warmup_requests"


def write_warmup(directory: Path, inputs: dict[str, np.ndarray], batch_sizes) -> None:
    """Write a request of strings for each batch size.

    Args:
        directory: `assets.extra` of an export.
        inputs: strings, which are repeated to each size.
        batch_sizes: integers, as the server's `allowed_batch_sizes`.

    Raises:
        ImportError: `tensorflow-serving-api` is not installed.
    """
    import tensorflow as tf

    try:
        from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog
    except ImportError:
        raise ImportError(
            "Requests for warming up are written with `pip install tensorflow-serving-api`; "
            "`warmup_batch_sizes=()` leaves them out"
        ) from None
    with tf.io.TFRecordWriter(str(directory / FILE)) as writer:
        for size in batch_sizes:
            log = PredictionLog()
            request = log.predict_log.request
            request.model_spec.signature_name = "serving_default"
            for name, values in inputs.items():
                batch = np.resize(values, (size, *values.shape[1:]))
                request.inputs[name].CopyFrom(tf.make_tensor_proto(batch, tf.string))
            writer.write(log.SerializeToString())
