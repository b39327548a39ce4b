"""Oracles: TensorFlow's own reader and writer, a file that Google's code wrote, and the dataset
that a file was written from."""

import gzip
import pickle
import struct

import keras
import numpy as np
import pytest

import keras_albert
from keras_albert.data import PretrainingDataset, prepare_corpus
from keras_albert.data.tfrecord_dataset import TFRecordDataset
from keras_albert.data.tfrecord_example import decode_example, encode_example
from keras_albert.data.tfrecord_writer import write_tfrecords
from keras_albert.data.tfrecords import RecordReader, RecordWriter, masked_crc
from tests.data.test_dataset import assert_equal, rows_of, stream

FIRST = 16 + 5  # bytes of the first record of `write(path, [b"a" * 5, ...])`


def dataset(shards, **settings):
    settings = {"sequence_length": 64, "batch_size": 8, "seed": 3, **settings}
    return PretrainingDataset(shards, **settings)


def write(path, records):
    writer = RecordWriter(path)
    for record in records:
        writer.write(record)
    writer.close()
    writer.publish()
    return path


def features(length=8, slots=2, **changes):
    """A right example of BERT's schema; None leaves a feature out."""
    example = {
        "input_ids": np.arange(length),
        "input_mask": np.ones(length, int),
        "segment_ids": np.zeros(length, int),
        "masked_lm_positions": np.arange(slots),
        "masked_lm_ids": np.arange(slots),
        "masked_lm_weights": np.ones(slots, "float32"),
        "next_sentence_labels": np.array([1]),
        **changes,
    }
    return {name: np.asarray(value) for name, value in example.items() if value is not None}


def examples(path, *rows):
    return write(path, [encode_example(row) for row in rows])


@pytest.fixture(scope="module")
def google(shared_data):
    return shared_data / "oracle" / "google_albert_wordpiece_seq128.tfrecord"


# --- Framing and message ------------------------------------------------------------------------


@pytest.mark.backend_free
def test_the_published_checksum_and_frame(tmp_path):
    # RFC 3720, B.4: the CRC-32C of 32 zero bytes is 0x8a9136aa.
    crc = 0x8A9136AA
    turned = ((crc >> 15) | (crc << 17)) & 0xFFFFFFFF
    assert masked_crc(bytes(32)) == (turned + 0xA282EAD8) % 2**32
    data = write(tmp_path / "a.tfrecord", [b"a" * 5]).read_bytes()
    assert data[:8] == struct.pack("<Q", 5) and data[12:17] == b"aaaaa" and len(data) == FIRST


@pytest.mark.backend_free
@pytest.mark.parametrize("name", ["a.tfrecord", "a.tfrecord.gz"])
def test_records_come_back_from_any_file_in_any_order(tmp_path, name):
    generator = np.random.default_rng(0)
    records = [generator.bytes(n) for n in (0, 1, 70_000, 3, 12)]
    paths = [write(tmp_path / f"{n}{name}", records[n : n + 2]) for n in (0, 2, 4)]
    empty = write(tmp_path / f"empty{name}", [])
    reader = RecordReader([paths[0], empty, *paths[1:]])
    for copy in (reader, pickle.loads(pickle.dumps(reader))):
        order = generator.permutation(5)
        assert [copy.read(n) for n in order] == [records[n] for n in order]
    assert not list(tmp_path.glob("*.partial"))
    again = write(tmp_path / f"again{name}", records[:2])  # no time, no name in the bytes
    assert again.read_bytes() == paths[0].read_bytes()


@pytest.mark.backend_free
def test_messages_come_back():
    rng = np.random.default_rng(0)
    row = {"n": rng.integers(-(2**40), 2**40, 50), "x": rng.normal(size=9).astype("float32")}
    received = decode_example(encode_example(row))
    assert received.keys() == row.keys()
    for name in row:
        np.testing.assert_array_equal(received[name], row[name], strict=True)


@pytest.mark.backend_free
def test_damage_is_named_with_its_record_and_byte(tmp_path):
    whole = write(tmp_path / "a.tfrecord", [b"a" * 5, b"b" * 7, b"c" * 9]).read_bytes()
    second = f"damaged, record 1 at byte {FIRST}"
    path = tmp_path / "damaged"

    path.write_bytes(whole[: FIRST + 4])  # in the second record's length
    with pytest.raises(ValueError, match=f"was cut.*{second}"):
        RecordReader([path])
    path.write_bytes(whole[: FIRST + 15])  # in its data
    with pytest.raises(ValueError, match=f"was cut.*{second}"):
        RecordReader([path])
    path.write_bytes(whole[:FIRST] + b"\1" + whole[FIRST + 1 :])  # its length
    with pytest.raises(ValueError, match=f"fit their checksums.*{second}"):
        RecordReader([path])
    path.write_bytes(b"Once upon a time, there was a text.")
    with pytest.raises(ValueError, match="another kind.*record 0 at byte 0"):
        RecordReader([path])

    path.write_bytes(whole.replace(b"bb", b"bx", 1))
    reader = RecordReader([path])
    assert reader.read(0) == b"a" * 5 and reader.read(2) == b"c" * 9
    with pytest.raises(ValueError, match=f"its checksum.*{second}"):
        reader.read(1)

    packed = tmp_path / "cut.tfrecord.gz"
    packed.write_bytes(gzip.compress(whole)[:-12])
    with pytest.raises(ValueError, match=r"whole gzip file.*cut\.tfrecord\.gz"):
        RecordReader([packed])


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="TensorFlow is the oracle")
@pytest.mark.parametrize("kind", ["", "GZIP"])
def test_tensorflow_reads_ours_and_we_read_tensorflows(shards, tmp_path, kind):
    import tensorflow as tf

    data = dataset(shards, static=True, batch_size=16)
    path = tmp_path / ("ours.tfrecord.gz" if kind else "ours.tfrecord")
    count = write_tfrecords(data, path, progress=False)
    lengths = {"input_ids": 64, "input_mask": 64, "segment_ids": 64, "token_boundary": 64}
    lengths |= {"masked_lm_positions": 10, "masked_lm_ids": 10, "next_sentence_labels": 1}
    schema = {name: tf.io.FixedLenFeature([n], tf.int64) for name, n in lengths.items()}
    schema["masked_lm_weights"] = tf.io.FixedLenFeature([10], tf.float32)
    records = list(tf.data.TFRecordDataset(str(path), compression_type=kind))
    assert len(records) == count == data.num_examples
    parsed = [tf.io.parse_single_example(record, schema) for record in records[:16]]
    x, y, weight = data[0]
    for name, ours in (
        ("input_ids", x["token_ids"]),
        ("input_mask", x["padding_mask"]),
        ("segment_ids", x["segment_ids"]),
        ("masked_lm_positions", x["mask_positions"]),
        ("masked_lm_ids", y["mlm"]),
        ("masked_lm_weights", weight["mlm"]),
        ("next_sentence_labels", y["sentence"][:, None]),
    ):
        np.testing.assert_array_equal(np.stack([row[name] for row in parsed]), ours, name)

    theirs = tmp_path / ("theirs.tfrecord.gz" if kind else "theirs.tfrecord")
    with tf.io.TFRecordWriter(str(theirs), tf.io.TFRecordOptions(compression_type=kind)) as writer:
        for row in parsed:
            features = {
                name: tf.train.Feature(float_list=tf.train.FloatList(value=value.numpy()))
                if value.dtype == tf.float32
                else tf.train.Feature(int64_list=tf.train.Int64List(value=value.numpy()))
                for name, value in row.items()
            }
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString())
    assert_equal(TFRecordDataset(theirs, batch_size=16, static=True)[0], data[0])


# --- The dataset --------------------------------------------------------------------------------


@pytest.mark.parametrize("objective", ["sop", "nsp", "none"])
@pytest.mark.parametrize("name", ["a.tfrecord", "a.tfrecord.gz"])
def test_what_is_written_comes_back(shards, tmp_path, objective, name):
    data = dataset(shards, static=True, objective=objective)
    assert write_tfrecords(data, tmp_path / name, num_files=3, progress=False) == data.num_examples
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [name.replace("a", f"a-0000{n}-of-00003", 1) for n in range(3)]
    back = TFRecordDataset(tmp_path, 8, 64, 10, objective, static=True, vocabulary_size=1001)
    assert len(back) == len(data) and back.num_batches == data.num_batches
    for step in range(len(data)):
        assert_equal(back[step], data[step])


@pytest.mark.backend_free
def test_epochs_are_written_with_draws_of_their_own(shards, tmp_path):
    data = dataset(shards, sequence_length=256)
    written = write_tfrecords(data, tmp_path / "two.tfrecord", epochs=2, progress=False)
    assert written == 2 * data.num_examples
    back = TFRecordDataset(tmp_path / "two.tfrecord", 8, static=True)
    rows = [row for step in range(len(back)) for row in rows_of(back[step])]
    assert rows == stream(data, written) and len(set(rows)) == written


@pytest.mark.backend_free
def test_the_stream_is_seekable_and_each_epoch_a_permutation(shards, tmp_path):
    data = dataset(shards, sequence_length=256, static=True)
    count = write_tfrecords(data, tmp_path / "a.tfrecord", progress=False)
    in_order = [row for step in range(len(data)) for row in rows_of(data[step])]
    shuffled = TFRecordDataset(tmp_path / "a.tfrecord", 5, seed=1)
    rows = stream(shuffled, 2 * count)
    assert sorted(rows[:count]) == sorted(rows[count:]) == sorted(in_order)
    assert rows[:count] != rows[count:] and rows[:count] != in_order
    assert stream(TFRecordDataset(tmp_path / "a.tfrecord", 5, seed=2), count) != rows[:count]
    plain = TFRecordDataset(tmp_path / "a.tfrecord", 5, shuffle=False)
    assert stream(plain, count) == in_order
    shuffled.start_step = 3
    copy = pickle.loads(pickle.dumps(shuffled))
    assert stream(copy, 10) == rows[15:25]
    parts = [TFRecordDataset(tmp_path / "a.tfrecord", 4, seed=1, process_index=i, num_processes=2)
             for i in (0, 1)]  # fmt: skip
    assert rows_of(parts[0][1]) + rows_of(parts[1][1]) == rows[4:8]


@pytest.mark.backend_free
def test_single_examples_are_the_rows(shards, tmp_path):
    data = dataset(shards, static=True)
    write_tfrecords(data, tmp_path / "a.tfrecord", progress=False)
    back = TFRecordDataset(tmp_path / "a.tfrecord")
    starts = data.tokenizer.word_starts()
    for index in (0, 7, data.num_examples - 1):
        ours, theirs = data.example(index), back.example(index)
        segments = [s for s in ours.pop("segments") if s is not None]
        for name in ("aims_short", "one_sentence"):  # how it was drawn, which files do not hold
            ours.pop(name)
        words = theirs.pop("word_starts")
        assert ours.keys() == theirs.keys()
        for name in ours:
            np.testing.assert_array_equal(ours[name], theirs[name], name)
        # [CLS] a [SEP] b [SEP]; special tokens begin a word, padding does not.
        expected = [True, *starts[segments[0]], True, *starts[segments[1]], True]
        assert words.tolist() == expected + [False] * (64 - len(expected))
    with pytest.raises(ValueError, match=r"in \[0, .*Received: -1"):
        back.example(-1)


@pytest.mark.backend_free
def test_googles_file_agrees_with_the_rules_that_wrote_it(google, shared_data):
    data = TFRecordDataset(google, batch_size=482, static=True, vocabulary_size=30522)
    assert (data.sequence_length, data.max_predictions, data.num_examples) == (128, 20, 482)
    x, y, weight = data[0]
    vocabulary = (shared_data / "vocab" / "bert_base_uncased_vocab.txt").read_text().split("\n")
    ids_BS = x["token_ids"].copy()
    rows, slots = np.nonzero(weight["mlm"])
    ids_BS[rows, x["mask_positions"][rows, slots]] = y["mlm"][rows, slots]
    tokens = np.array(vocabulary, object)[ids_BS]
    assert set(tokens[:, 0]) == {"[CLS]"} and "[MASK]" not in tokens
    assert ((tokens != "[PAD]") == x["padding_mask"]).all()
    # The sign of a word's start that the file has is that of the unmasked tokens.
    starts = ~np.vectorize(lambda token: token.startswith("##"))(tokens) & x["padding_mask"]
    assert [data.example(n)["word_starts"].tolist() for n in range(482)] == starts.tolist()
    assert set(y["sentence"]) == {0, 1}


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="TensorFlow is the oracle")
def test_googles_file_is_read_as_tensorflow_reads_it(google):
    import tensorflow as tf

    names = {"input_ids": 128, "input_mask": 128, "segment_ids": 128}
    names |= {"masked_lm_positions": 20, "masked_lm_ids": 20, "next_sentence_labels": 1}
    schema = {name: tf.io.FixedLenFeature([n], tf.int64) for name, n in names.items()}
    schema["masked_lm_weights"] = tf.io.FixedLenFeature([20], tf.float32)
    theirs = tf.data.TFRecordDataset(str(google)).batch(100)
    data = TFRecordDataset(google, batch_size=100, static=True)
    for step, records in enumerate(theirs):
        parsed = {k: v.numpy() for k, v in tf.io.parse_example(records, schema).items()}
        x = {
            "token_ids": parsed["input_ids"].astype("int32"),
            "segment_ids": parsed["segment_ids"].astype("int32"),
            "padding_mask": parsed["input_mask"] == 1,
            "mask_positions": parsed["masked_lm_positions"].astype("int32"),
        }
        labels = parsed["next_sentence_labels"][:, 0].astype("int32")
        y = {"mlm": parsed["masked_lm_ids"].astype("int32"), "sentence": labels}
        weight = {"mlm": parsed["masked_lm_weights"], "sentence": np.ones(len(labels), "float32")}
        assert_equal(data[step], (x, y, weight))
    assert step + 1 == len(data)


@pytest.mark.slow
def test_googles_file_trains(google):
    backbone = keras_albert.AlbertBackbone(
        vocabulary_size=30522,
        num_layers=1,
        num_heads=2,
        embedding_dim=16,
        hidden_dim=32,
        intermediate_dim=64,
        max_sequence_length=128,
    )
    model = keras_albert.AlbertPretrainer(backbone)
    model.compile(optimizer=keras.optimizers.Adam(2e-2))
    data = TFRecordDataset(google, batch_size=4, vocabulary_size=30522, static=True)
    data.num_examples = 4  # one batch, to overfit
    losses = model.fit(data, epochs=12, verbose=0).history["loss"]
    assert 9.5 < losses[0] < 11.5  # ln(30522) + ln(2) is 11.0 at chance
    assert losses[-1] < losses[0] - 4


# --- Refusals -----------------------------------------------------------------------------------


@pytest.mark.backend_free
def test_another_length_is_refused_in_words(tmp_path):
    path = examples(tmp_path / "a.tfrecord", features(8, 2))
    with pytest.raises(
        ValueError, match="sequence_length.*8.*leave it out.*512; a.tfrecord.*has 8"
    ):
        TFRecordDataset(path, sequence_length=512)
    with pytest.raises(ValueError, match="max_predictions.*2.*write the files again.*=20; a.tfrec"):
        TFRecordDataset(path, max_predictions=20)
    other = examples(tmp_path / "b.tfrecord", features(8, 3))
    with pytest.raises(ValueError, match="8 and 2 in .*a.tfrecord, record 0.*8 and 3 in .*b.tfrec"):
        TFRecordDataset([path, other])


@pytest.mark.backend_free
def test_missing_features_are_named_with_those_that_are_there(tmp_path):
    path = examples(
        tmp_path / "a.tfrecord",
        features(segment_ids=None, masked_lm_weights=None, input_type_ids=np.zeros(8, int)),
    )
    message = "without segment_ids, masked_lm_weights, but with input_ids.*input_type_ids.*record 0"
    with pytest.raises(ValueError, match=message):
        TFRecordDataset(path)
    path = examples(tmp_path / "b.tfrecord", features(next_sentence_labels=None))
    with pytest.raises(ValueError, match="without next_sentence_labels"):
        TFRecordDataset(path)
    assert TFRecordDataset(path, 1, objective="none", static=True)[0][1].keys() == {"mlm"}
    path = write(tmp_path / "c.tfrecord", [b"\xff\xff\xff"])
    with pytest.raises(ValueError, match="tf.train.Example.*3 bytes.*c.tfrecord, record 0 at"):
        TFRecordDataset(path)


@pytest.mark.backend_free
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"input_ids": [1] * 7 + [50]}, r"`input_ids` must be in \[0, 50\).*50 in"),
        ({"masked_lm_ids": [3, -1]}, r"`masked_lm_ids` must be in \[0, 50\).*-1 in"),
        ({"masked_lm_positions": [3, 8]}, r"`masked_lm_positions` must be in \[0, 8\).*8 in"),
        ({"input_mask": [1] * 7 + [2]}, "`input_mask` must be 0 or 1.*2 in"),
        ({"segment_ids": [0] * 7 + [-1]}, "`segment_ids` must be 0 or 1.*-1 in"),
        ({"next_sentence_labels": [2]}, "`next_sentence_labels` must be 0 or 1.*2 in"),
        ({"next_sentence_labels": [0, 1]}, "`next_sentence_labels` must have length 1.*2 in"),
        ({"masked_lm_weights": np.float32([1, np.nan])}, "must be 0 or more.*nan in"),
        ({"input_ids": [1] * 9}, "`input_ids` must have length 8.*9 in"),
        ({"masked_lm_ids": [1]}, "`masked_lm_ids` must have length 2.*1 in"),
        ({"input_ids": np.ones(8, "float32")}, "`input_ids` must be an int64_list.*float32 in"),
    ],
)
def test_records_that_break_the_schema_are_named(tmp_path, changes, message):
    path = examples(tmp_path / "a.tfrecord", features(), features(**changes))
    data = TFRecordDataset(path, 1, static=True, vocabulary_size=50)
    data[0]
    with pytest.raises(ValueError, match=rf"{message}.*a\.tfrecord, record 1 at byte \d+"):
        data[1]


@pytest.mark.backend_free
def test_wrong_calls_are_refused_and_leave_what_is_there(shards, tmp_path, monkeypatch):
    data, path = dataset(shards, static=True), tmp_path / "a.tfrecord"
    with pytest.raises(ValueError, match="num_files.*number of batches.*1000"):
        write_tfrecords(data, path, num_files=1000)
    with pytest.raises(ValueError, match="single pass.*epochs=2"):
        write_tfrecords(data, path, epochs=2)
    with pytest.raises(ValueError, match="num_processes=1.*num_processes=2"):
        write_tfrecords(dataset(shards, num_processes=2), path)
    write_tfrecords(data, path, num_files=2, progress=False)
    with pytest.raises(ValueError, match="overwrite=True.*a-00000-of-00002"):
        write_tfrecords(data, path, progress=False)

    before = sorted((p.name, p.read_bytes()) for p in tmp_path.iterdir())
    monkeypatch.setattr(PretrainingDataset, "__getitem__", fails_after(len(data) // 2))
    with pytest.raises(OSError, match="disk"):
        write_tfrecords(data, path, num_files=3, overwrite=True, progress=False)
    assert sorted((p.name, p.read_bytes()) for p in tmp_path.iterdir()) == before
    monkeypatch.undo()
    write_tfrecords(data, path, overwrite=True, progress=False)
    assert [p.name for p in tmp_path.iterdir()] == ["a.tfrecord"]

    with pytest.raises(ValueError, match="all empty"):
        TFRecordDataset(write(tmp_path / "empty.tfrecord", []))
    with pytest.raises(ValueError, match="No file found"):
        TFRecordDataset(tmp_path / "nothing-*.tfrecord")


def fails_after(steps):
    right = PretrainingDataset.__getitem__

    def getitem(self, index):
        if index >= steps:
            raise OSError("disk")
        return right(self, index)

    return getitem


@pytest.mark.backend_free
def test_padding_of_any_id_is_kept(tmp_path):
    words = ["[UNK]", "[CLS]", "[SEP]", "[MASK]", "[PAD]", "a", "cat", "sat", "."]
    tokenizer = keras_albert.BertTokenizer(words)
    documents = [["A cat sat.", "A cat."]] * 3
    prepare_corpus(iter(documents), tmp_path / "shards", tokenizer=tokenizer, progress=False)
    data = dataset(tmp_path / "shards", sequence_length=16, static=True)
    write_tfrecords(data, tmp_path / "a.tfrecord", progress=False)
    back = TFRecordDataset(tmp_path / "a.tfrecord", 8, static=True)
    assert_equal(back[0], data[0])
    assert (back[0][0]["token_ids"][~back[0][0]["padding_mask"]] == 4).all()
