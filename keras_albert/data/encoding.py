"""From documents as they were read to records: the work that is shared among processes.

Nothing here imports Keras, and nothing depends on the batch or the process a document is in.

Suffixes: M sentences, N tokens of a document.
"""

import dataclasses
import hashlib
import itertools
from collections.abc import Callable

import numpy as np

from keras_albert.data.documents import Source, sentence_splitter, sentences_of
from keras_albert.data.token_records import cuts, encode_record, token_dtype


@dataclasses.dataclass(frozen=True)
class EncodedDocument:
    """A document, or a part of a very long one, as records.

    Attributes:
        records: list of (record, its number of tokens); empty where the text gave no token.
        num_sentences: sentences with at least one token.
        digest: a hash of the sentences; the same text has the same, wherever it was.
        continues: whether this goes on where the part before it stopped.
    """

    records: list[tuple[bytes, int]]
    num_sentences: int
    digest: int
    continues: bool


class DocumentEncoder:
    """Sources in, `EncodedDocument`s out; can be sent to other processes.

    Args:
        tokenizer: with `encode_batch` and `vocabulary_size`.
        sentences: how to find sentences, as `prepare_corpus` takes it.
        max_document_tokens: a longer document is cut into several records.
    """

    def __init__(self, tokenizer, sentences: str | Callable, max_document_tokens: int):
        self.tokenizer = tokenizer
        self.sentences = sentences
        self.max_document_tokens = max_document_tokens
        self._split = sentence_splitter(sentences)
        self._dtype = token_dtype(tokenizer.vocabulary_size())

    def __reduce__(self):
        return type(self), (self.tokenizer, self.sentences, self.max_document_tokens)

    def __call__(self, sources: list[Source]) -> list[EncodedDocument]:
        """Encodes documents, in their order, giving the tokenizer all sentences at once."""
        documents = [sentences_of(source, self._split) for source in sources]
        encoded = iter(self.tokenizer.encode_batch([s for d in documents for s in d]))
        return [
            self._encoded(sentences, list(itertools.islice(encoded, len(sentences))), source)
            for sentences, source in zip(documents, sources, strict=True)
        ]

    def _encoded(self, sentences: list[str], ids: list[list[int]], source: Source):
        digest = hashlib.blake2b("\n".join(sentences).encode(), digest_size=8).digest()
        ids = [sentence for sentence in ids if sentence]
        lengths_M = np.fromiter(map(len, ids), "int64", len(ids))
        ids_N = np.fromiter(itertools.chain.from_iterable(ids), self._dtype, int(lengths_M.sum()))
        return EncodedDocument(
            records=list(self._records(ids_N, lengths_M)) if ids else [],
            num_sentences=len(ids),
            digest=int.from_bytes(digest, "little"),
            continues=source.continues,
        )

    def _records(self, ids_N: np.ndarray, lengths_M: np.ndarray):
        most = self.max_document_tokens
        if lengths_M.max() > most:  # a sentence on its own that is too long for a record
            lengths = [n for m in lengths_M for n in [most] * (m // most) + [m % most] if n]
            lengths_M = np.array(lengths)
        ends_M = np.cumsum(lengths_M)
        first = start = 0
        for last in cuts(lengths_M, most):
            end = int(ends_M[last - 1])
            yield encode_record(ids_N[start:end], lengths_M[first:last], self._dtype), end - start
            first, start = last, end


def held_out(digest: int, share: float) -> bool:
    """Whether a document of this digest belongs to the held-out share."""
    return digest < share * 2**64
