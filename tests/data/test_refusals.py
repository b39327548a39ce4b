"""What `PretrainingDataset` refuses, and that it names what is wrong."""

import json
import os
import shutil

import pytest

from keras_albert.data import PretrainingDataset, prepare_corpus

pytestmark = pytest.mark.backend_free


def dataset(shards, **settings):
    return PretrainingDataset(shards, **{"sequence_length": 64, "batch_size": 8, **settings})


def changed(shards, target, change):
    shutil.copytree(shards, target)
    change(target)
    return target


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize(
    "change",
    [
        lambda d: (d / "shard-00001.array_record").unlink(),
        lambda d: (d / "shard-00001.index").unlink(),
        lambda d: os.truncate(d / "shard-00001.array_record", 5000),
        lambda d: flip(d / "shard-00001.index"),
        lambda d: shutil.copy(d / "shard-00000.array_record", d / "shard-00001.array_record"),
    ],
)
def test_missing_and_damaged_files_are_named(shards, tmp_path, change, verify):
    directory = changed(shards, tmp_path / "shards", change)
    with pytest.raises(ValueError, match=r"shard-00001.*\("):
        dataset(directory, verify=verify)


def test_a_flipped_bit_is_named(shards, tmp_path):
    directory = changed(shards, tmp_path / "shards", lambda d: flip(d / "shard-00001.array_record"))
    with pytest.raises(ValueError, match=r"overwrite=True.*shard-00001.*SHA-256"):
        dataset(directory)
    with pytest.raises(ValueError, match=r"shard-00001"):  # unverified: named when it is read
        list(dataset(directory, verify=False, static=True))


def test_shards_without_a_manifest_are_refused(shards, tmp_path):
    directory = changed(shards, tmp_path / "shards", lambda d: (d / "manifest.json").unlink())
    with pytest.raises(ValueError, match=r"manifest\.json.*prepare_corpus"):
        dataset(directory)


def test_another_tokenizer_is_refused_by_name(shards, tokenizer, tmp_path):
    assert dataset(shards, tokenizer=tokenizer).num_examples
    with pytest.raises(ValueError, match="chunks-77 as `tokenizer`.*ChunkTokenizer chunks-1001"):
        dataset(shards, tokenizer=type(tokenizer)(77))
    edited = changed(
        shards, tmp_path / "s", lambda d: (d / "tokenizer" / "chunks.txt").write_text("99")
    )
    with pytest.raises(ValueError, match="chunks-99 as .*tokenizer; the shards"):
        dataset(edited)
    config = edited / "tokenizer" / "tokenizer.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "registered_name": "a>B"}))
    config.write_text(config.read_text().replace("ChunkTokenizer", "Unknown"))
    with pytest.raises(ValueError, match="registered with Keras"):
        dataset(edited)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"objective": "mlm"}, "'mlm'"),
        ({"sequence_length": 4}, "4"),
        ({"batch_size": 0}, "0"),
        ({"max_ngram": 0}, "0"),
        ({"mask_rate": 0.0}, "0.0"),
        ({"max_predictions": 0}, "0"),
        ({"short_sequence_probability": 1.5}, "1.5"),
    ],
)
def test_wrong_arguments_are_named(shards, settings, message):
    with pytest.raises(ValueError, match=f"Received.*{message}"):
        dataset(shards, **settings)


def test_corpora_too_small_are_refused(tokenizer, tmp_path):
    for number, (documents, settings) in enumerate(
        [([["a"]], {}), ([["a b c d"]], {"objective": "nsp"}), ([["a b c"]], {"legacy": True})]
    ):
        directory = tmp_path / str(number)
        prepare_corpus(iter(documents), directory, tokenizer=tokenizer, progress=False)
        with pytest.raises(ValueError, match="at least"):
            dataset(directory, **settings)
