"""Which characters of the original text each token comes from, inside a TensorFlow graph.

The twin of `preprocessing.alignment`: every character is normalised alone, and the lengths of the
results say where the characters of the whole text's normalised form come from. What may differ: a
mark that normalisation keeps has a span of its own, and of a character that SentencePiece's own
tables make several of, each piece has the part that tensorflow-text gives it.

Shapes: B batch; rows are ragged.
"""

import numpy as np
import tensorflow as tf

from keras_albert.preprocessing.bert_words import _alone, _dropped
from keras_albert.preprocessing.encoders import MAX_WORD_LENGTH
from keras_albert.preprocessing.normalizer import (
    clean_unicode_tf,
    code_point_ranges,
    normalize_text_tf,
    re2_class,
)

_SPACE = f"[{re2_class(code_point_ranges('space'))}]"
_MARK = "\u2581"


def tokenize_with_offsets(tokenizer, text):
    """Ids of texts (B,), and the characters that each token comes from.

    Returns:
        `(ids, starts, ends)`, ragged (B, None) of int32; as `Encoder.encode_with_offsets`.
    """
    text = clean_unicode_tf(text)
    if hasattr(tokenizer, "proto"):
        return _sentencepiece_offsets(tokenizer, text)
    return _wordpiece_offsets(tokenizer, text)


def _sentencepiece_offsets(tokenizer, text):
    normal = normalize_text_tf(text, tokenizer.lowercase, tokenizer.strip_accents)
    model = tokenizer._graph_tokenizer()
    ids, begins, stops = model.tokenize_with_offsets(normal)
    places = _Places(normal)
    begin, stop = (places.of_bytes(x) for x in (begins, stops))
    # A piece's own space, and what the model makes one of, is left out.
    is_space = tf.gather(_spaces_of(tokenizer), tf.minimum(places.codes, 0xFFFF))
    solid = tf.cast(tf.where(tf.logical_not(is_space))[:, 0], tf.int32)
    solid = tf.concat([solid, [places.count]], axis=0)
    begin = tf.gather(solid, tf.searchsorted(solid, tf.minimum(begin, places.count)))
    stop = tf.maximum(begin, stop)
    rows = ids.value_rowids()
    if tokenizer.split_digit_commas and tokenizer.encoder.digit_commas:
        ids, begin, stop, rows = _split_digit_commas(tokenizer, ids.flat_values, begin, stop, rows)
    else:
        ids = ids.flat_values
    characters = tf.strings.unicode_split(text, "UTF-8")
    is_space = tf.strings.regex_full_match(characters.flat_values, _SPACE)
    alone = normalize_text_tf(characters.flat_values, tokenizer.lowercase, tokenizer.strip_accents)
    lengths = tf.strings.length(alone, "UTF8_CHAR")
    extends = tf.logical_not(is_space) & (lengths == 0)
    lengths = tf.where(is_space, _collapsed(characters, is_space), lengths)
    spans = _spans_of_characters(characters, lengths, extends, tf.logical_not(extends))
    return _in_original(ids, begin, stop, rows, spans, text)


def _spaces_of(tokenizer):
    """For each code point of the first plane whether the model's tables make a space of it."""
    import sentencepiece

    model = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.proto)
    between = f"{_MARK}a{_MARK}b"  # with the space that is put before every text
    kinds = ("space", "Cc", "Cf")
    spaces = np.zeros(0x10000, bool)
    for first, last in (pair for kind in kinds for pair in code_point_ranges(kind)):
        for code in range(first, min(last, 0xFFFF) + 1):
            spaces[code] = model.Normalize(f"a{chr(code)}b").endswith(between[1:])
    return tf.constant(spaces)


def _split_digit_commas(tokenizer, ids, begin, stop, rows):
    """The digit-comma rule: the parts of a piece share its span by their lengths."""
    pieces, replacements = tokenizer.get_vocabulary(), tokenizer.encoder.digit_commas
    parts = [replacements.get(id, [id]) for id in range(len(pieces))]
    counts = tf.constant([len(part) for part in parts])
    flat = [id for part in parts for id in part]
    table = tf.RaggedTensor.from_row_lengths(tf.constant(flat, ids.dtype), counts)
    sizes = [len(pieces[id].removeprefix(_MARK)) for id in flat]
    sizes = tf.RaggedTensor.from_row_lengths(tf.constant(sizes), counts)
    new, size = tf.gather(table, ids), tf.gather(sizes, ids)
    owner = new.value_rowids()
    begin, stop, rows = (tf.gather(x, owner) for x in (begin, stop, rows))
    ends = tf.cumsum(size.flat_values)
    before = tf.gather(tf.concat([[0], ends], 0), tf.gather(size.row_starts(), owner))
    same = tf.gather(tf.reduce_sum(size, axis=1), owner) == stop - begin
    split = same & (tf.gather(new.row_lengths(), owner) > 1)
    part_end = begin + ends - before
    return (
        new.flat_values,
        tf.where(split, part_end - size.flat_values, begin),
        tf.where(split, part_end, stop),
        rows,
    )


def _wordpiece_offsets(tokenizer, text):
    import tensorflow_text as tf_text

    options = tokenizer._normalization()
    characters = tf.strings.unicode_split(text, "UTF-8")
    lengths, extends = _wordpiece_lengths(characters.flat_values, **options)
    normal = _normal_for_words(text, **options)
    alone = f"[{re2_class(_alone())}]"
    words, begins, stops = tf_text.regex_split_with_offsets(normal, f"{_SPACE}+|{alone}", alone)
    places = _Places(normal)
    begin, stop = (places.of_bytes(x) for x in (begins, stops))
    flat = words.flat_values
    flat = tf.where(
        tf.strings.length(flat, "UTF8_CHAR") > MAX_WORD_LENGTH, tokenizer.unk_token, flat
    )
    tokenizer._maybe_initialized_tf()
    ids, _, ends = tokenizer._fast_word_piece.tokenize_with_offsets(flat)
    # Ends of pieces are bytes of the word; the last, of [UNK] too, is the word's.
    owner = ids.value_rowids()
    word_byte = tf.gather(tf.cast(begins.flat_values, tf.int64), owner)
    rows = tf.gather(words.value_rowids(), owner)
    piece_stop = places.of_global(
        word_byte + tf.cast(ends.flat_values, tf.int64) + tf.gather(places.row_bytes, rows)
    )
    is_last = tf.range(tf.size(owner)) + 1 == tf.cast(tf.gather(ids.row_limits(), owner), tf.int32)
    piece_stop = tf.where(is_last, tf.gather(stop, owner), piece_stop)
    is_first = tf.range(tf.size(owner)) == tf.cast(tf.gather(ids.row_starts(), owner), tf.int32)
    previous = tf.concat([[0], piece_stop], axis=0)[:-1]
    piece_begin = tf.where(is_first, tf.gather(begin, owner), previous)
    spans = _spans_of_characters(characters, lengths, extends, lengths > 0)
    return _in_original(ids.flat_values, piece_begin, piece_stop, rows, spans, text)


def _normal_for_words(text, lowercase, strip_accents):
    """What `split_words_tf` splits."""
    import tensorflow_text as tf_text

    text = tf.strings.regex_replace(text, f"[{re2_class(_dropped())}]+", "")
    if lowercase:
        text = tf.strings.lower(text, encoding="utf-8")
    if strip_accents:
        text = tf_text.normalize_utf8(text, "NFD")
        text = tf.strings.regex_replace(text, f"[{re2_class(code_point_ranges('Mn'))}]+", "")
    return text


def _wordpiece_lengths(characters, lowercase, strip_accents):
    """How many characters each becomes, and which are marks that belong to the one before."""
    is_dropped = tf.strings.regex_full_match(characters, f"[{re2_class(_dropped())}]")
    lengths = tf.strings.length(
        _normal_for_words(characters, lowercase, strip_accents), "UTF8_CHAR"
    )
    return lengths, tf.logical_not(is_dropped) & (lengths == 0)


def _collapsed(characters, is_space):
    """1 for the last space of each run between two words, 0 elsewhere: (characters,) int32."""
    is_space = characters.with_flat_values(is_space)
    words = characters.with_flat_values(tf.cast(~is_space.flat_values, tf.int32))
    rows = words.value_rowids()
    before = tf.cumsum(words.flat_values, exclusive=True)
    at_row = tf.gather(tf.concat([before, [0]], 0), words.row_starts())
    has_before = before > tf.gather(at_row, rows)
    next_is_word = tf.concat([words.flat_values[1:], [0]], 0)[: tf.size(before)] == 1
    is_row_end = tf.range(tf.size(before)) + 1 == tf.cast(
        tf.gather(words.row_limits(), rows), tf.int32
    )
    return tf.cast(has_before & next_is_word & ~is_row_end, tf.int32)


def _spans_of_characters(characters, lengths, extends, bounds):
    """For each character of the normalised texts, joined, its span in the original's characters.

    `extends` are characters that become nothing and belong to the last one before them that
    `bounds`; what does neither is passed over.
    """
    rows = characters.value_rowids()
    row_start = tf.gather(tf.cast(characters.row_starts(), tf.int32), rows)
    index = tf.range(tf.size(lengths))
    owner = tf.cumsum(tf.cast(bounds, tf.int32)) - 1
    kept = tf.boolean_mask(index, bounds)
    own_row = tf.gather(tf.concat([tf.gather(rows, kept), [-1]], axis=0), tf.maximum(owner, 0))
    counts = bounds | (extends & (own_row == rows) & (owner >= 0))
    end = tf.math.unsorted_segment_max(
        tf.where(counts, index + 1, 0), tf.maximum(owner, 0), tf.size(kept)
    )
    repeats, own = tf.gather(lengths, kept), tf.gather(row_start, kept)
    return tf.repeat(kept - own, repeats), tf.repeat(end - own, repeats)


def _in_original(ids, begin, stop, rows, spans, text):
    """Spans of the normalised, joined texts as spans of each original."""
    starts, ends = spans
    last = tf.maximum(tf.size(starts) - 1, 0)
    starts, ends = (tf.concat([x, [0]], axis=0) for x in (starts, ends))
    first = tf.gather(starts, tf.minimum(begin, last))
    end = tf.where(stop > begin, tf.gather(ends, tf.clip_by_value(stop - 1, 0, last)), first)
    columns, count = (tf.cast(ids, tf.int32), first, end), tf.shape(text, tf.int64)[0]
    return tuple(tf.RaggedTensor.from_value_rowids(column, rows, count) for column in columns)


class _Places:
    """Bytes of texts to characters of the joined texts."""

    def __init__(self, texts):
        characters, starts = tf.strings.unicode_decode_with_offsets(texts, "UTF-8")
        lengths = tf.strings.length(texts)
        self.row_bytes = tf.cast(tf.cumsum(lengths, exclusive=True), tf.int64)
        self.starts = starts.flat_values + tf.gather(self.row_bytes, starts.value_rowids())
        self.codes = characters.flat_values
        self.count = tf.size(self.codes)

    def of_bytes(self, offsets):
        """Offsets in each text, ragged (B, None), to joined characters."""
        base = tf.gather(self.row_bytes, offsets.value_rowids())
        return self.of_global(tf.cast(offsets.flat_values, tf.int64) + base)

    def of_global(self, offsets):
        """Bytes of the joined texts to characters of the joined texts."""
        return tf.searchsorted(self.starts, offsets)
