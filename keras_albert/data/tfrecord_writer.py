"""`write_tfrecords`: a dataset as files in the original's schema, for other programs and TPU pods.

Suffix: S sequence.
"""

import os
from pathlib import Path

import numpy as np
from rich.progress import Progress

from keras_albert.arguments import check, check_booleans, check_integers, is_path
from keras_albert.data.dataset import PretrainingDataset
from keras_albert.data.tfrecord_dataset import LABEL, PREDICTIONS, SEQUENCE, WORD_STARTS
from keras_albert.data.tfrecord_example import encode_example
from keras_albert.data.tfrecords import RecordWriter


def write_tfrecords(
    dataset: PretrainingDataset,
    path: str | os.PathLike,
    *,
    num_files: int = 1,
    epochs: int = 1,
    overwrite: bool = False,
    progress: bool = True,
) -> int:
    """Writes a dataset as TFRecord files that BERT's and ALBERT's `run_pretraining.py` read.

    A record is a `tf.train.Example` of `input_ids`, `input_mask`, `segment_ids`, `token_boundary`
    (S each), `masked_lm_positions`, `masked_lm_ids`, `masked_lm_weights` (P each) and
    `next_sentence_labels` (1; always 0 with objective `"none"`). The examples stand in the order of
    `dataset[0]`, `dataset[1]` and so on. TensorFlow is not needed. The files appear under their
    names together, when all are whole.

    Args:
        dataset: a `PretrainingDataset`. A static one is written from its first batch to its last.
        path: the file. With several, `a/b.tfrecord` gives `a/b-00000-of-00004.tfrecord` and so on.
            A name that ends in `.gz` is compressed.
        num_files: how many files, about equal; at most the number of batches.
        epochs: how many passes, each with draws of its own (the original's `dupe_factor`); 1 with a
            static dataset.
        overwrite: whether to replace files of this name, of an earlier number of files too.
        progress: whether to show progress.

    Returns:
        The number of examples written.

    Raises:
        ValueError: for arguments outside these rules, and files that are there when not
            `overwrite`.

    Example:
        ```python
        data = keras_albert.PretrainingDataset("shards/", sequence_length=128)
        keras_albert.write_tfrecords(data, "tfrecords/train.tfrecord", num_files=8, epochs=10)
        data = keras_albert.TFRecordDataset("tfrecords/train-*.tfrecord")
        ```
    """
    owner = "write_tfrecords"
    check(
        owner,
        "a PretrainingDataset",
        lambda value: isinstance(value, PretrainingDataset),
        dataset=dataset,
    )
    check(owner, "a file's path", is_path, path=path)
    check_integers(owner, 1, num_files=num_files, epochs=epochs)
    check_booleans(owner, overwrite=overwrite, progress=progress)
    if dataset.num_processes > 1 or dataset.packing or (dataset.static and epochs > 1):
        raise ValueError(
            "`dataset` must be whole (num_processes=1) with a row for each example "
            "(packing=False), and a static one is a single pass (epochs=1). Received: "
            f"num_processes={dataset.num_processes}, packing={dataset.packing}, "
            f"static={dataset.static}, epochs={epochs}"
        )
    examples = None if dataset.static else epochs * dataset.num_examples
    batches = len(dataset) if dataset.static else -(-examples // dataset.batch_size)
    if num_files > batches:
        raise ValueError(
            f"`num_files` must be at most the number of batches, {batches}. Received: {num_files}"
        )
    paths, earlier = _paths(Path(os.path.expanduser(path)), num_files)
    if earlier and not overwrite:
        raise ValueError(
            "There must be no such file already: pass `overwrite=True` to replace it, or another "
            f"`path`. Received: {str(path)!r}, and there is {', '.join(map(str, earlier))[:300]}"
        )
    paths[0].parent.mkdir(parents=True, exist_ok=True)

    tokenizer = dataset.tokenizer
    word_starts_V = np.array(tokenizer.word_starts(), bool)
    word_starts_V[[tokenizer.cls_token_id, tokenizer.sep_token_id]] = True  # as in the original
    edges = np.arange(num_files + 1) * batches // num_files
    writers, written = [], 0
    try:
        with Progress(disable=not progress) as bar:
            task = bar.add_task("Writing", total=batches)
            for file, target in enumerate(paths):
                writers.append(RecordWriter(target))
                for step in range(edges[file], edges[file + 1]):
                    rows = _rows(dataset[step], word_starts_V)
                    for row in rows[: None if examples is None else examples - written]:
                        writers[-1].write(encode_example(row))
                        written += 1
                    bar.update(task, completed=step + 1)
                writers[-1].close()
        for old in earlier:
            old.unlink()
        for writer in writers:
            writer.publish()
    finally:
        for writer in writers:
            writer.abandon()
    return written


def _rows(batch, word_starts_V: np.ndarray) -> list[dict[str, np.ndarray]]:
    """The rows of a batch under the original's names."""
    x, y, weight = batch
    count = len(x["token_ids"])
    arrays = {**x, "mask_ids": y["mlm"], "mask_weights": weight["mlm"]}
    arrays["sentence"] = y.get("sentence", np.zeros(count, "int32"))
    names = {**SEQUENCE, **PREDICTIONS, **LABEL}
    features = {name: arrays[ours].reshape(count, -1) for name, ours in names.items()}
    features["input_mask"] = features["input_mask"].astype("int32")
    # Words are those of the text, before masking; padding begins none.
    original_BS = x["token_ids"].copy()
    rows, slots = np.nonzero(arrays["mask_weights"])
    original_BS[rows, x["mask_positions"][rows, slots]] = y["mlm"][rows, slots]
    starts_BS = word_starts_V[original_BS] & x["padding_mask"]
    features[WORD_STARTS] = starts_BS.astype("int32")
    return [{name: array[row] for name, array in features.items()} for row in range(count)]


def _paths(path: Path, num_files: int) -> tuple[list[Path], list[Path]]:
    """The files to write, and those that an earlier call wrote by the same name."""
    compressed = ".gz" if path.suffix == ".gz" else ""
    base = path.with_suffix("") if compressed else path

    def part(number: str, count: str) -> str:
        return f"{base.stem}-{number}-of-{count}{base.suffix}{compressed}"

    several = [base.with_name(part(f"{n:05d}", f"{num_files:05d}")) for n in range(num_files)]
    earlier = sorted(base.parent.glob(part("[0-9]" * 5, "[0-9]" * 5)))
    if path.exists():
        earlier.append(path)
    return ([path] if num_files == 1 else several), earlier
