"""A small tokenizer of each kind, for the tests of this folder."""

import pytest

from keras_albert.preprocessing.albert_tokenizer import AlbertTokenizer
from keras_albert.preprocessing.bert_tokenizer import BertTokenizer

CORPUS = [
    "The quick brown fox (so they say) jumped over the lazy dog - and over 1,000 others, too.",
    "In 2010, 2011, 2012, and 2013, a fox cost £5, €6, or 7,000,000 francs.",
    "Café déjà vu: naïve façades, Ærø, Straße, ΣΊΣΥΦΟΣ, Москва, 東京都.",
] * 30
SIZES = {AlbertTokenizer: 80, BertTokenizer: 150}
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


@pytest.fixture(scope="session", params=[AlbertTokenizer, BertTokenizer])
def tokenizer(request):
    """Trained on `CORPUS`."""
    return request.param.train(iter(CORPUS), SIZES[request.param])
