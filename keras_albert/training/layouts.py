"""Which axis of which variable is split over the devices of a mesh, under JAX."""

import keras

from keras_albert.arguments import check


def layout_map(device_mesh, axis: str = "model"):
    """The layouts of an ALBERT's or BERT's variables, for `keras.distribution.ModelParallel`.

    Of each block, the projections to heads and to the wide layer are split by outputs and the
    projections back by inputs, so that a sublayer needs one sum over devices; the embedding table
    and the bias of the masked-LM head are split by the vocabulary. Everything else is small and is
    held by every device, as LayerNorms, positions and the projection of the embedding are. An
    optimizer's moments lie as their variables do.

    The size of the axis must divide the vocabulary, `hidden_dim` and `intermediate_dim`; let it
    divide `num_heads` too, or heads are cut in two.

    Args:
        device_mesh: a `keras.distribution.DeviceMesh` with such an axis.
        axis: its name.

    Returns:
        A `keras.distribution.LayoutMap`.

    Raises:
        ValueError: `device_mesh` is none, or has no axis of that name.

    Source: Shoeybi et al. (2019), section 3.

    Example:
    ```python
    # Before the model is made: variables are split as they are made.
    devices = keras.distribution.list_devices()
    mesh = keras.distribution.DeviceMesh((2, len(devices) // 2), ("batch", "model"), devices)
    keras.distribution.set_distribution(
        keras.distribution.ModelParallel(layout_map=keras_albert.layout_map(mesh))
    )
    backbone = keras_albert.AlbertBackbone.from_preset("albert_xxlarge_v2", load_weights=False)
    ```
    """
    check(
        "layout_map",
        "a keras.distribution.DeviceMesh",
        lambda mesh: isinstance(mesh, keras.distribution.DeviceMesh),
        device_mesh=device_mesh,
    )
    check(
        "layout_map",
        f"the name of an axis of the mesh: {tuple(device_mesh.axis_names)}",
        lambda name: name in device_mesh.axis_names,
        axis=axis,
    )
    layouts = keras.distribution.LayoutMap(device_mesh)
    # Within the encoder alone: tasks' heads have layers of the same names.
    layouts[r".*attention_\d+/(query|key|value)/kernel"] = (None, axis)
    layouts[r".*attention_\d+/(query|key|value)/bias"] = (axis,)
    layouts[r".*attention_\d+/output_dense/kernel"] = (axis, None)
    layouts[r".*feed_forward_\d+/intermediate_dense/kernel"] = (None, axis)
    layouts[r".*feed_forward_\d+/intermediate_dense/bias"] = (axis,)
    layouts[r".*feed_forward_\d+/output_dense/kernel"] = (axis, None)
    layouts[r".*token_embedding/embeddings"] = (axis, None)
    layouts[r".*masked_lm_head/bias"] = (axis,)
    return layouts
