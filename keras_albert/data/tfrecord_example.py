"""`tf.train.Example` without TensorFlow: named lists of integers or floats as bytes, and back."""

import functools
from collections.abc import Mapping

import numpy as np


def encode_example(features: Mapping[str, np.ndarray]) -> bytes:
    """The bytes of a `tf.train.Example`.

    Args:
        features: 1-D arrays by name; floats make a `float_list`, integers an `int64_list`.

    Example:
        >>> decode_example(encode_example({"input_ids": np.array([2, 7, 3])}))
        {'input_ids': array([2, 7, 3])}
    """
    example = _example_class()()
    for name, values in features.items():
        feature = example.features.feature[name]
        values_list = feature.float_list if values.dtype.kind == "f" else feature.int64_list
        values_list.value.extend(values.tolist())
    return example.SerializeToString(deterministic=True)


def decode_example(data: bytes) -> dict[str, np.ndarray]:
    """The features of a `tf.train.Example`: int64, float32 or object (bytes) arrays by name.

    Raises:
        ValueError: where the bytes are no such message.
    """
    from google.protobuf.message import DecodeError

    try:
        example = _example_class().FromString(data)
    except DecodeError:
        raise ValueError(
            f"A record must be a tf.train.Example. Received: {len(data)} bytes that are none"
        ) from None
    dtypes = {"int64_list": "int64", "float_list": "float32", "bytes_list": object}
    features = {}
    for name, feature in example.features.feature.items():
        kind = feature.WhichOneof("kind")
        values = getattr(feature, kind).value if kind else ()
        features[name] = np.array(values, dtypes.get(kind, "int64"))
    return features


@functools.cache
def _example_class():
    """`tf.train.Example`, described here: TensorFlow need not be installed.

    In a pool of its own, as TensorFlow registers the same names in the common one.
    """
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="keras_albert/example.proto", package="tensorflow", syntax="proto3"
    )

    def add(message, name, number, kind, repeated=False, **options):
        label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
        if isinstance(kind, str):
            kind, options = field.TYPE_MESSAGE, {**options, "type_name": f".tensorflow.{kind}"}
        message.field.add(name=name, number=number, type=kind, label=label, **options)

    lists = {"Bytes": field.TYPE_BYTES, "Float": field.TYPE_FLOAT, "Int64": field.TYPE_INT64}
    for name, kind in lists.items():
        add(file.message_type.add(name=f"{name}List"), "value", 1, kind, repeated=True)
    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, name in enumerate(lists, 1):
        add(feature, f"{name.lower()}_list", number, f"{name}List", oneof_index=0)
    features = file.message_type.add(name="Features")
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    add(entry, "key", 1, field.TYPE_STRING)
    add(entry, "value", 2, "Feature")
    add(features, "feature", 1, "Features.FeatureEntry", repeated=True)
    add(file.message_type.add(name="Example"), "features", 1, "Features")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tensorflow.Example"))
