"""Oracle: the rule that a file nobody vouches for ends in a clear error and leaves no trace.

Every attack is made here and loaded in one process of its own, which counts what it opens, what it
connects to, and its memory.
"""

import json
import os
import subprocess
import sys
import tarfile

import pytest

from tests.checkpoints import attacks
from tests.checkpoints.conftest import WORDS, make_bert
from tests.conftest import ROOT

# attack -> what its error says; every error is a ValueError.
EXPECTED = {
    "big_config": "must be at most 1,048,576 bytes",
    "deep_config": "nested more than 32 deep",
    "twice_config": "'hidden_size' stands there twice",
    "nan_config": "NaN is no JSON number",
    "list_config": "list instead of an object",
    "huge_hidden": "`hidden_dim` of a checkpoint must be an integer from 1 to 65,536",
    "huge_vocabulary": "`vocabulary_size` of a checkpoint must be an integer",
    "deep_model": "`num_layers` of a checkpoint must be an integer from 1 to 512",
    "string_size": "`hidden_dim` of a checkpoint must be an integer.*Received: '8'",
    "negative_size": "`intermediate_dim` of a checkpoint must be an integer",
    "bad_heads": "heads of a checkpoint must divide",
    "larger_than_file": r"of shape \(1,\).*asks for \(4000000, 65536\)",
    "other_model": "`model_type` of a checkpoint.*'gpt2'",
    "foreign_activation": "`hidden_act` of a checkpoint.*'os.system'",
    "decoder": "`is_decoder` other than False",
    "long_header": "a header of 4,611,686,018,427,387,904 bytes",
    "header_past_end": "a header of 500 bytes",
    "no_header": "must start with the length of its header",
    "header_not_json": "header must be a JSON object",
    "truncated": "the data that the header describes",
    "past_end": "the data that the header describes",
    "shape_and_bytes": "the data that the header describes",
    "overlapping": "the data that the header describes",
    "name_twice": "stands there twice",
    "huge_shape": "the data that the header describes",
    "shard_outside": "must name all the shards",
    "shard_absolute": "must name all the shards",
    "shard_missing": "is not there",
    "shard_count": "must name all the shards.*1 files",
    "shard_extra": r"\['more'\] differ",
    "pickle": "nothing that is executed",
    "zip_pickle": "nothing that is executed",
    "strides": "must be stored with all its numbers",
    "zip_bomb": "an archive that is not compressed",
    "not_torch": "nothing that is executed",
    "outside.tar.gz": r"paths that stay inside. Received: '\.\./albert_config.json'",
    "absolute.tar.gz": "paths that stay inside. Received: '/tmp/albert_config.json'",
    "link.tar.gz": "plain files and folders",
    "hard_link.tar.gz": "plain files and folders",
    "device.tar.gz": "plain files and folders",
    "bomb.tar.gz": "must not unpack to more than 10 times",
    "cut.tar.gz": "must be a whole",
    "two.tar.gz": "must hold one checkpoint.*'vocab.txt' twice",
    "outside.zip": r"paths that stay inside. Received: '\.\./albert_config.json'",
    "absolute.zip": "paths that stay inside. Received: '/tmp/albert_config.json'",
    "link.zip": "plain files and folders",
    "bomb.zip": "must not unpack to more than 10 times",
    "flipped.zip": "must be a whole",
    "locked.zip": "without a password",
    "config_link": "not behind a symbolic link",
    "weights_link": "not behind a symbolic link",
    "h5_link": "without links",
    "h5_external": "must lie in its file",
    "h5_bomb": "must lie in its file",
    "h5_broken": "must be an HDF5 file",
    "h5_loop": "Groups of HDF5 must end",
    "own_lambda": "Lambda|lambda|activation|safe",
    "own_foreign": "activation|module|locate|deserialize|safe",
    "own_deep": "nested more than 32 deep",
    "own_huge": "`vocabulary_size` of a checkpoint",
    "own_larger": "weights must be as many as its configuration asks for",
    "model.keras": "keras.saving.load_model",
}
EXPECTED_OF_TENSORFLOW = {
    "tf_cut_index": "must have a whole `.index`",
    "tf_cut_data": "data must be as long as its index says",
    "tf_shards": "must have all its shards",
}


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """name -> (kind of error, its message, suspicious events, growth of memory in MB)."""
    pytest.importorskip("torch", reason="the attacks by pickle are made by torch")
    root = tmp_path_factory.mktemp("attacks")
    temporary, folder = root / "temporary", root / "files"
    temporary.mkdir()
    folder.mkdir()
    for maker in attacks.MAKERS:
        maker(folder)
    try:
        import tensorflow  # noqa: F401

        attacks.make_tensorflow(folder)
    except ImportError:
        pass
    # One that loads, whose configuration names what must not be opened.
    from keras_albert.checkpoints import to_huggingface

    good = make_bert(num_layers=1, vocabulary_size=len(WORDS))
    to_huggingface(good, folder / "names_a_path")
    config = json.loads((folder / "names_a_path" / "config.json").read_text())
    config |= {"_name_or_path": "/etc/passwd", "auto_map": {"AutoModel": "evil.Model"}}
    (folder / "names_a_path" / "config.json").write_text(json.dumps(config))
    tokenizer = {"vocab_file": "/etc/passwd", "tokenizer_file": "http://127.0.0.1:9/x"}
    (folder / "names_a_path" / "tokenizer_config.json").write_text(json.dumps(tokenizer))

    before = sorted(str(path) for path in folder.rglob("*"))
    result = subprocess.run(
        [sys.executable, "-m", "tests.checkpoints.attacks", str(folder)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(temporary), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert result.returncode == 0, result.stderr[-3000:]
    assert sorted(str(path) for path in folder.rglob("*")) == before
    assert not list(temporary.glob("keras_albert_*"))
    return json.loads(result.stdout.strip().splitlines()[-1])


@pytest.mark.backend_free
@pytest.mark.parametrize("attack", [*EXPECTED, *EXPECTED_OF_TENSORFLOW])
def test_an_attack_ends_in_a_clear_error(seen, attack):
    if attack in EXPECTED_OF_TENSORFLOW:
        pytest.importorskip("tensorflow")
    kind, message, events, growth = seen[attack]
    import re

    expected = {**EXPECTED, **EXPECTED_OF_TENSORFLOW}[attack]
    assert kind == "ValueError" and re.search(expected, message, re.S), (kind, message)
    assert attack in message or "own_" in attack, message
    assert not events
    assert growth < 300


@pytest.mark.backend_free
def test_no_path_or_url_that_a_config_names_is_opened(seen):
    kind, message, events, _ = seen["names_a_path"]
    assert (kind, events) == ("loaded", []), message


@pytest.mark.backend_free
def test_every_attack_has_its_row(seen):
    assert set(seen) == {*EXPECTED, *EXPECTED_OF_TENSORFLOW, "names_a_path"}


@pytest.mark.backend_free
def test_the_archives_are_what_they_say(tmp_path):
    attacks.make_archives(tmp_path)
    with tarfile.open(tmp_path / "outside.tar.gz") as tar:
        assert tar.getnames() == ["albert/model.ckpt.index", "../albert_config.json"]
