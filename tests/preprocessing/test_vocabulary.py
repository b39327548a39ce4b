"""Damaged vocabularies are refused by rule and place; training is a function of the texts."""

import pathlib
import subprocess
import sys

import numpy as np
import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_albert.preprocessing.albert_tokenizer import AlbertTokenizer
from keras_albert.preprocessing.bert_tokenizer import BertTokenizer
from keras_albert.preprocessing.vocabulary_training import sample_lines, split_line
from tests.preprocessing.conftest import CORPUS, SIZES, SPECIAL

pytestmark = pytest.mark.backend_free


@pytest.mark.parametrize("cls", [AlbertTokenizer, BertTokenizer])
def test_bad_paths(cls, tmp_path):
    with pytest.raises(FileNotFoundError, match="existing file.*nowhere"):
        cls(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="must be a file.*Received"):
        cls(str(tmp_path))
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(ValueError, match="must not be empty.*empty"):
        cls(tmp_path / "empty")
    with pytest.raises(ValueError, match="Received: 3"):
        cls(3)


def test_not_a_sentencepiece_model(tmp_path):
    (tmp_path / "x.model").write_text("hello")
    with pytest.raises(ValueError, match="must be a SentencePiece model.*x.model"):
        AlbertTokenizer(tmp_path / "x.model")


def test_sentencepiece_model_without_control_pieces(tmp_path):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS),
        model_prefix=str(tmp_path / "plain"),
        vocab_size=70,
        minloglevel=2,
    )
    with pytest.raises(ValueError, match=r"AlbertTokenizer.train.*Missing: \[CLS\], .*plain.model"):
        AlbertTokenizer(tmp_path / "plain.model")


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("tail", ["", "\n", "\n\n\n"])
def test_line_ends_and_marks(tmp_path, ends, start, tail):
    path = tmp_path / "vocab.txt"
    text = ends.join([*SPECIAL, "été", "a"]) + tail.replace("\n", ends)
    path.write_bytes(start + text.encode())
    tokenizer = BertTokenizer(path, strip_accents=False)
    assert tokenizer.get_vocabulary() == [*SPECIAL, "été", "a"]
    assert tokenizer.encode_batch(["ÉTÉ A"]) == [[5, 6]]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([*SPECIAL, "a", "", "b"], "one token a line.*vocab.txt', line 7 is empty"),
        ([*SPECIAL, "a", "b", "a"], "each token once.*vocab.txt', lines 6 and 8 are both 'a'"),
        (SPECIAL[:-1], r"Missing: \[MASK\].*vocab.txt'"),
        (["a", "b"], r"Missing: \[PAD\], \[UNK\], \[CLS\], \[SEP\], \[MASK\]"),
    ],
)
def test_damaged_wordpiece(tmp_path, lines, message):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(lines))
    with pytest.raises(ValueError, match=message):
        BertTokenizer(path)


def test_wordpiece_must_be_utf8(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes("\n".join([*SPECIAL, "é"]).encode("latin-1"))
    with pytest.raises(ValueError, match="UTF-8.*vocab.txt', line 6"):
        BertTokenizer(path)


TRAIN = """
import sys
from keras_albert.preprocessing.albert_tokenizer import AlbertTokenizer
from keras_albert.preprocessing.bert_tokenizer import BertTokenizer
for cls, size in (AlbertTokenizer, 80), (BertTokenizer, 150):
    print(cls.train(sys.argv[1], size).fingerprint())
"""


@pytest.mark.slow
def test_training_is_deterministic(tmp_path):
    """Another process, with another hash seed, finds the same vocabularies."""
    (tmp_path / "corpus.txt").write_text("\n".join(CORPUS))
    command = [sys.executable, "-c", TRAIN, str(tmp_path / "c*.txt")]
    root = pathlib.Path(__file__).parents[2]
    result = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root)
    assert result.stdout.split() == [
        cls.train(iter(CORPUS), size).fingerprint() for cls, size in SIZES.items()
    ]


def test_trained_on_files(tokenizer, tmp_path):
    cls = type(tokenizer)
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbf" + "\r\n".join(CORPUS[:45]).encode())
    (tmp_path / "b.txt").write_text("\n".join(CORPUS[45:]))
    path = tmp_path / "out" / "vocabulary"
    trained = cls.train([tmp_path / "a.txt", tmp_path / "b.txt"], SIZES[cls], output=path)
    assert trained.fingerprint() == cls(path).fingerprint() == tokenizer.fingerprint()
    assert [file.name for file in path.parent.iterdir()] == ["vocabulary"]


def test_training_settings():
    vocabulary = AlbertTokenizer.train(iter(CORPUS), SIZES[AlbertTokenizer]).get_vocabulary()
    assert vocabulary[:5] == ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
    assert vocabulary[5:13] == ["(", ")", '"', "-", ".", "–", "£", "€"]
    assert not any(any(c.isupper() for c in piece) for piece in vocabulary[5:])
    vocabulary = BertTokenizer.train(iter(CORPUS), SIZES[BertTokenizer]).get_vocabulary()
    assert vocabulary[:5] == SPECIAL
    assert "fox" in vocabulary


def test_too_little_text_names_the_largest_size(tokenizer):
    cls = type(tokenizer)
    with pytest.raises(
        ValueError, match=r"at most (\d+) .*Received: vocabulary_size=100000"
    ) as info:
        cls.train(iter(CORPUS), 100_000)
    largest = int(str(info.value).split("at most ")[1].split()[0])
    assert cls.train(iter(CORPUS), largest).vocabulary_size() == largest
    with pytest.raises(ValueError, match="at most|at least|every character"):
        cls.train(iter(CORPUS), 20)


def test_bad_training_texts(tokenizer, tmp_path):
    cls = type(tokenizer)
    with pytest.raises(ValueError, match=r"No file found for: 'a text'"):
        cls.train(["a text"], 150)
    with pytest.raises(ValueError, match="some text"):
        cls.train(iter([" ", ""]), 150)
    with pytest.raises(ValueError, match="must be strings.*text 1, 3"):
        cls.train(iter(["a", 3]), 150)
    (tmp_path / "latin").write_bytes("a\né".encode("latin-1"))
    with pytest.raises(ValueError, match="UTF-8.*latin', line 2"):
        cls.train(tmp_path / "latin", 150)


@settings(deadline=None)
@given(st.text(st.sampled_from("ab é東 "), max_size=200), st.integers(4, 30))
def test_long_lines_lose_nothing(text, max_bytes):
    parts = list(split_line(text, max_bytes))
    assert all(len(part.encode()) <= max_bytes for part in parts)
    assert "".join(parts).replace(" ", "") == text.replace(" ", "")
    if max(map(len, text.encode().split(b" "))) <= max_bytes:
        assert " ".join(parts) == text


@given(st.lists(st.text(max_size=9), max_size=200), st.integers(1, 300))
def test_a_sample_is_of_the_lines_in_their_order_and_of_the_size(lines, max_bytes):
    sample = sample_lines(iter(lines), max_bytes)
    size = sum(len(line.encode()) for line in sample)
    assert sample == sample_lines(lines, max_bytes)
    if sum(len(line.encode()) for line in lines) <= max_bytes:
        assert sample == lines
    else:
        assert size <= max_bytes or len(sample) == 1
        rest = iter(lines)
        assert all(line in rest for line in sample)  # a subsequence


def test_a_sample_is_even():
    """Each tenth of a long corpus has its share, within 5 standard deviations."""
    lines = [f"{i:09}" for i in range(20_000)]
    sample = [int(line) for line in sample_lines(lines, 9 * 8_000)]
    assert 2_000 < len(sample) <= 8_000
    counts = np.histogram(sample, bins=10, range=(0, 20_000))[0]
    share = len(sample) / 10
    assert (np.abs(counts - share) < 5 * share**0.5).all(), counts
