"""A small corpus and a tokenizer that needs no files, for the tests of the data package."""

import random
import zlib

import keras
import numpy as np
import pytest

from keras_albert.data import prepare_corpus


@keras.saving.register_keras_serializable(package="keras_albert_tests")
class ChunkTokenizer:
    """Words are cut into pieces of four letters; ids are hashes, odd where a word starts."""

    pad_token_id, unk_token_id, cls_token_id, sep_token_id, mask_token_id = range(5)
    special_token_ids = (0, 1, 2, 3, 4)

    def __init__(self, size=1001):
        self.size = size

    def vocabulary_size(self):
        return self.size

    def encode_batch(self, texts):
        return [
            [
                self._id(word[i : i + 4], starts=i == 0)
                for word in text.split()
                for i in range(0, len(word), 4)
            ]
            for text in texts
        ]

    def _id(self, piece, starts):
        kinds = (self.size - 5) // 2
        return 5 + 2 * (zlib.crc32(piece.encode()) % kinds) + (not starts)

    def word_starts(self):
        return np.arange(self.size) % 2 == 1

    def fingerprint(self):
        return f"chunks-{self.size}"

    def save_assets(self, directory):
        with open(f"{directory}/chunks.txt", "w") as file:
            file.write(str(self.size))

    def load_assets(self, directory):
        with open(f"{directory}/chunks.txt") as file:
            self.size = int(file.read())

    def get_config(self):
        return {"size": self.size}

    @classmethod
    def from_config(cls, config):
        return cls(**config)


def made_up_documents(count, seed=0):
    """`count` documents, each a list of sentences, of 1 to some 600 words."""
    generator = random.Random(seed)
    words = ["".join(generator.choices("abcdefgh", k=generator.randint(1, 11))) for _ in range(300)]
    return [
        [
            " ".join(generator.choices(words, k=generator.randint(1, 30))).capitalize() + "."
            for _ in range(generator.randint(1, 40))
        ]
        for _ in range(count)
    ]


@pytest.fixture(scope="session")
def tokenizer():
    return ChunkTokenizer()


@pytest.fixture(scope="session")
def documents():
    return made_up_documents(60)


@pytest.fixture(scope="session")
def shards(tmp_path_factory, tokenizer, documents):
    """A prepared corpus of several shards; not to be changed."""
    directory = tmp_path_factory.mktemp("corpus") / "shards"
    prepare_corpus(
        iter(documents),
        directory,
        tokenizer=tokenizer,
        max_document_tokens=500,
        shard_tokens=6000,
        progress=False,
    )
    return directory
