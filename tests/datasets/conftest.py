"""Fixtures of the readers' tests."""

import zipfile

import pytest


@pytest.fixture
def sample(shared_data, tmp_path):
    """Unpacks one archive of real rows: `sample("glue__rte")` gives the folder in it."""

    def unpack(name):
        with zipfile.ZipFile(shared_data / "samples" / f"{name}.zip") as archive:
            archive.extractall(tmp_path / name)
        return tmp_path / name / "dummy_data"

    return unpack
