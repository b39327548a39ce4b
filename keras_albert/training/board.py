"""Rows of a log as TensorBoard's scalars.

Through TensorBoard's record writer: its `summary.Writer` imports TensorFlow wherever it is
installed, which takes seconds and memory that a run on JAX or torch has no use for.
"""

import importlib.util
import shutil
import time
from pathlib import Path

NOT_SCALARS = ("step", "epoch", "time", "event")


def start_board(directory: Path, rows: list[dict]) -> Path | None:
    """Starts a file of events with `rows`, in place of any in `directory`.

    Returns:
        Its path, or None where TensorBoard is not installed.
    """
    if importlib.util.find_spec("tensorboard") is None:
        return None
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    path = directory / f"events.out.tfevents.{int(time.time())}.keras_albert"
    _append(path, [{"wall_time": time.time(), "file_version": "brain.Event:2"}])
    add_to_board(path, rows)
    return path


def add_to_board(path: Path, rows: list[dict]):
    """Appends the scalars of rows, which have `step` and `time`."""
    from tensorboard.compat.proto.summary_pb2 import Summary

    _append(
        path,
        [
            {
                "wall_time": row["time"],
                "step": row["step"],
                "summary": Summary(
                    value=[
                        Summary.Value(tag=name, simple_value=value)
                        for name, value in row.items()
                        if name not in NOT_SCALARS
                    ]
                ),
            }
            for row in rows
        ],
    )


def _append(path, events):
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.summary.writer.record_writer import RecordWriter

    with open(path, "ab") as file:
        writer = RecordWriter(file)
        for event in events:
            writer.write(Event(**event).SerializeToString())
