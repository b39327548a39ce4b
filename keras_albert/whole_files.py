"""Files that have their name only once they are whole."""

import os
import tempfile
from pathlib import Path


def write_whole(path: str | os.PathLike, data: bytes | str) -> None:
    """Write bytes, or text as UTF-8, beside a file, and give them its name when they are there."""
    path = Path(os.fspath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(
        dir=path.parent, prefix=f".{path.name}.", delete=False
    ) as file:
        try:
            file.write(data.encode("utf-8") if isinstance(data, str) else data)
            file.flush()
            os.fsync(file.fileno())
            os.chmod(file.name, 0o644)  # a temporary file is private
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise
