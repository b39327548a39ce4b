"""The progress of a preparation: share of the input, tokens, rate, time left."""

import contextlib

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


@contextlib.contextmanager
def progress_bar(total_bytes: int | None, show: bool):
    """Gives a function of (bytes read so far, tokens added) that moves the bar."""
    if not show:
        yield lambda bytes_read, tokens: None
        return
    columns = (
        TextColumn("Preparing"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%  {task.fields[tokens]:,} tokens  {task.fields[rate]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns) as bar:
        task = bar.add_task("", total=total_bytes, tokens=0, rate="")

        def advance(bytes_read: int, tokens: int):
            state = bar.tasks[0]
            tokens += state.fields["tokens"]
            rate = f"{tokens / max(state.elapsed or 0, 1e-3):,.0f}/s"
            bar.update(task, completed=bytes_read, tokens=tokens, rate=rate)

        yield advance
