"""What `x` of `fit` can be: raw examples, model inputs, or a dataset."""

from collections.abc import Sequence

import keras
import numpy as np


def is_model_input(x) -> bool:
    """Whether `x` is what the model's graph takes."""
    return isinstance(x, dict) and "token_ids" in x


def is_packed(x) -> bool:
    """Whether `x` is rows of several texts; see `preprocessing.packed_rows.pack_texts`."""
    return isinstance(x, dict) and "text_ids" in x


def is_raw(x) -> bool:
    """Whether `x` is examples before preprocessing: a string, or a list, tuple or array."""
    if isinstance(x, np.ndarray):
        return x.dtype.kind in "OSU"
    is_column = isinstance(x, Sequence) or hasattr(x, "to_list")  # of pandas, of datasets
    return is_column or getattr(getattr(x, "dtype", None), "name", None) == "string"


def is_dataset_of_texts(x) -> bool:
    """Whether KerasHub's pipeline has to preprocess `x`: a dataset of tf.data or grain."""
    return not isinstance(x, (keras.utils.PyDataset, dict)) and (
        hasattr(x, "map") or hasattr(x, "element_spec")
    )


def number_of_steps(x, batch_size):
    """The number of batches of `x`, None where it is unknown."""
    if isinstance(x, keras.utils.PyDataset):
        return x.num_batches
    if is_model_input(x):
        return -(-len(x["token_ids"]) // batch_size)
    try:
        return len(x) if is_dataset_of_texts(x) else None
    except TypeError:  # of a dataset that does not know
        return None
