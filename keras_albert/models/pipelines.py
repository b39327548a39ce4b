"""What Keras' loops take for the datasets of this package, on TensorFlow a pipeline of tf.data."""

import keras

from keras_albert.preprocessing.example_batches import ExampleBatches


def for_keras(data, shuffle=False, class_weight=None):
    """What to give to Keras for `data`: on TensorFlow an adapter, else the same.

    It ends when its last batch does, and says so where shapes differ from batch to batch.

    Args:
        data: what `fit` was given, or the adapter that a `TrainingState` made of it.
        shuffle: of `keras.Model.fit`, which does not heed it for an adapter.
        class_weight: likewise.
    """
    source = getattr(data, "py_dataset", data)
    if source is not data:
        data.class_weight = class_weight
    is_ours = hasattr(source, "packing")  # of examples that are encoded, or of shards
    if not is_ours or keras.backend.backend() != "tensorflow":
        return data
    import tensorflow as tf
    from keras.src.trainers.data_adapters.data_adapter_utils import get_tensor_spec
    from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter

    adapter = data
    if not isinstance(data, PyDatasetAdapter):
        adapter = PyDatasetAdapter(source, class_weight, shuffle)
    pipeline = adapter.get_tf_dataset

    def without_autotuner():
        # It sleeps for 10 ms, 20, 40 and so on, and the end of a pass can wait until it wakes: 5.4
        # seconds of `predict` took 10.3.
        options = tf.data.Options()
        options.autotune.enabled = False
        return pipeline().with_options(options)

    adapter.get_tf_dataset = without_autotuner
    if isinstance(source, ExampleBatches) or source.packing:
        # Keras would take the shape that the first two batches have for that of all.
        adapter._output_signature = tf.nest.map_structure(
            lambda spec: spec and tf.TensorSpec([None] * spec.shape.rank, spec.dtype),
            get_tensor_spec([adapter._standardize_batch(source[0])]),
        )
    return adapter
