"""What a server answers for each task: strings or ids in, named dense tensors out.

A served task has `strings`, the shapes of its string inputs; `answer_texts`, from strings to
answers; and `answer_ids`, from the model's inputs to its outputs and answers. Nothing is ragged:
rows are padded, strings with "", offsets with -1, probabilities with 0.

Shapes: B batch, S sequence, C classes, W words, N options, M masks, K candidates, V vocabulary.
"""

import tensorflow as tf

from keras_albert.export.graph_text import GraphText, cut_to_longest, running_total, split_at_spaces


class ServedTask:
    """The base: a model, and the reading of its strings."""

    strings = {"text": [None]}
    rank = 2  # of the ids

    def __init__(self, model, sequence_length, pair=False):
        self.model = model
        self.text = GraphText(model.preprocessor.tokenizer, sequence_length)
        self.tokenizer = self.text.tokenizer
        if pair:
            self.strings = {"text": [None], "text_pair": [None]}
        # Traced once, for the signature of ids and the one of strings.
        self.answer_ids = tf.function(self.answer_ids, autograph=False)

    def id_inputs(self):
        """Specs of the inputs of ids."""
        shape = [None] * self.rank
        return {
            "token_ids": tf.TensorSpec(shape, tf.int32, "token_ids"),
            "segment_ids": tf.TensorSpec(shape, tf.int32, "segment_ids"),
            "padding_mask": tf.TensorSpec(shape, tf.bool, "padding_mask"),
        }

    def answer_texts(self, **texts):
        """Answers to strings, named as in `strings`."""
        return self.answer_ids(**self.text.pack(*map(self.text.tokenize, texts.values())))

    def answer_ids(self, **x):
        """Outputs and answers for the model's inputs."""
        return self.answers(self.run(self.text.fit(x)))

    def run(self, x):
        """The model's outputs; of an empty batch too, which some layers do not take."""
        rows = tf.shape(x["token_ids"])[0]
        missing = tf.maximum(1 - rows, 0)
        x = {
            name: tf.pad(values, [[0, missing]] + [[0, 0]] * (values.shape.rank - 1))
            for name, values in x.items()
        }
        outputs = self.model(x, training=False)
        return tf.nest.map_structure(lambda output: output[:rows], outputs)


class ServedClassifier(ServedTask):
    """`logits` and `probabilities` (B, C), `label` (B,); of a regression `value` (B,)."""

    def answers(self, logits):
        if self.model.num_classes == 1:
            return {"value": logits[:, 0]}
        return {**_probabilities(logits), "label": _best_label(self.model, logits)}


class ServedEmbedder(ServedTask):
    """`vectors` (B, D), or (B, S, D) with `padding_mask` (B, S) where nothing is pooled."""

    def answer_ids(self, **x):
        x = self.text.fit(x)
        vectors = self.run(x)
        if self.model.pooling is None:
            return {"vectors": vectors, "padding_mask": x["padding_mask"]}
        return {"vectors": vectors}


class ServedTagger(ServedTask):
    """For the words that fit: `words`, `tags`, `probabilities`, `starts`, `ends` (B, W).

    Words are what white space divides; offsets are characters of the text. Of ids: `logits` and
    `probabilities` (B, S, C), `tags` (B, S).
    """

    def answer_texts(self, text):
        words, starts, ends = split_at_spaces(text)
        room = self.text.sequence_length - 2
        pieces = self.text.tokenize(words.flat_values)[:, :room]
        # A word of nothing but unknown marks has no piece; it still needs a place.
        is_empty = tf.cast(pieces.row_lengths() == 0, tf.int64)
        unknown = tf.fill([tf.reduce_sum(is_empty)], self.tokenizer.unk_token_id)
        pieces = tf.concat([pieces, tf.RaggedTensor.from_row_lengths(unknown, is_empty)], axis=1)
        lengths = words.with_flat_values(tf.cast(pieces.row_lengths(), tf.int32))
        before = running_total(lengths)
        fits = before + lengths <= room
        pieces = tf.ragged.boolean_mask(words.with_flat_values(pieces), fits)
        words, starts, ends, before = (
            tf.ragged.boolean_mask(column, fits) for column in (words, starts, ends, before)
        )
        outputs = self.answer_ids(**self.text.pack(pieces.merge_dims(1, 2)))
        places_BW = (before + 1).to_tensor()
        is_word_BW = tf.sequence_mask(words.row_lengths(), tf.shape(places_BW)[1])
        best_BS = tf.reduce_max(outputs["probabilities"], axis=-1)
        tags_BW = tf.gather(outputs["tags"], places_BW, batch_dims=1)
        best_BW = tf.gather(best_BS, places_BW, batch_dims=1)
        return {
            "words": words.to_tensor(""),
            "tags": tf.where(is_word_BW, tags_BW, ""),
            "probabilities": tf.where(is_word_BW, best_BW, 0.0),
            "starts": starts.to_tensor(-1),
            "ends": ends.to_tensor(-1),
        }

    def answers(self, logits):
        return {**_probabilities(logits), "tags": _best_label(self.model, logits)}


class ServedChoice(ServedTask):
    """`logits` and `probabilities` (B, N), `choice` (B,): the index of the best option.

    An option that is "" is no option: it fills up the row of an example that has fewer.
    """

    strings = {"context": [None], "options": [None, None]}
    rank = 3

    def answer_texts(self, context, options):
        count_B, count_N = tf.shape(options)[0], tf.shape(options)[1]
        same = tf.debugging.assert_equal(
            tf.shape(context)[0], count_B, "`context` and `options` must have as many rows."
        )
        with tf.control_dependencies([same]):
            flat = tf.reshape(options, [-1])
        length = self.text.sequence_length
        seconds = self.text.tokenize(flat)
        kept = self.model.preprocessor.option_length
        kept = tf.minimum(tf.cast(seconds.row_lengths(), tf.int32), min(kept, length - 4))
        seconds = _last(seconds, kept)
        # The context loses its tail; the option stays.
        firsts = tf.gather(
            self.text.tokenize(context)[:, :length], tf.repeat(tf.range(count_B), count_N)
        )
        firsts = _first(firsts, length - 3 - kept)
        is_option = tf.strings.length(flat)[:, None] > 0
        packed = self.text.packer.call((firsts, seconds))
        pad = self.text.packer.pad_value
        x = {
            "token_ids": tf.where(is_option, packed["token_ids"], pad),
            "segment_ids": tf.where(is_option, packed["segment_ids"], 0),
            "padding_mask": packed["padding_mask"] & is_option,
        }
        x = cut_to_longest(x)
        width = tf.shape(x["token_ids"])[1]
        shape = [count_B, count_N, width]
        return self.answer_ids(**{name: tf.reshape(v, shape) for name, v in x.items()})

    def answers(self, logits):
        logits_BN = _with_a_column(logits)
        choice = tf.argmax(logits_BN, axis=-1, output_type=tf.int32)
        return {**_probabilities(logits), "choice": choice}


class ServedMaskFiller(ServedTask):
    """The most probable tokens for every [MASK]: `tokens`, `probabilities` (B, M, K), best first.

    Masks beyond the truncated text are not filled. Of ids, with `mask_positions` (B, P): the
    model's logits, `mlm` (B, P, V) and `sentence` (B, 2).
    """

    TOP_K = 5

    def id_inputs(self):
        spec = tf.TensorSpec([None, None], tf.int32, "mask_positions")
        return {**super().id_inputs(), "mask_positions": spec}

    def answer_texts(self, text):
        mask = self.tokenizer.mask_token_id
        parts = tf.strings.split(text, self.tokenizer.mask_token)
        pieces = parts.with_flat_values(self.text.tokenize(parts.flat_values))
        # A mask after every part, and none after the last.
        masks = tf.ones_like(parts.flat_values, tf.int32)[:, None] * mask
        pieces = parts.with_flat_values(tf.concat([pieces.values, masks], axis=1))
        ids = pieces.merge_dims(1, 2)[:, :-1]
        x = self.text.pack(ids)
        is_mask_BS = x["token_ids"] == mask
        places = tf.where(is_mask_BS)
        positions = tf.RaggedTensor.from_value_rowids(
            tf.cast(places[:, 1], tf.int32), places[:, 0], tf.shape(text, tf.int64)[0]
        )
        is_mask_BM1 = tf.sequence_mask(positions.row_lengths())[..., None]
        outputs = self.answer_ids(**x, mask_positions=positions.to_tensor(0))
        # A backbone may have more rows than the tokenizer has pieces; those have no name.
        pieces = [_shown(piece) for piece in self.tokenizer.get_vocabulary()]
        probabilities_BMV = tf.nn.softmax(outputs["mlm"])[..., : len(pieces)]
        best = tf.math.top_k(probabilities_BMV, min(self.TOP_K, len(pieces)))
        tokens_BMK = tf.gather(tf.constant(pieces), best.indices)
        return {
            "tokens": tf.where(is_mask_BM1, tokens_BMK, ""),
            "probabilities": tf.where(is_mask_BM1, best.values, 0.0),
        }

    def answer_ids(self, mask_positions, **x):
        x = self.text.fit(x)
        last = tf.shape(x["token_ids"])[1] - 1
        positions = tf.minimum(mask_positions, last)  # of masks that were cut off
        return self.run({**x, "mask_positions": positions})


def _probabilities(logits):
    return {"logits": logits, "probabilities": tf.nn.softmax(logits)}


def _best_label(model, logits):
    names = model.class_names or [str(i) for i in range(model.num_classes)]
    return tf.gather(tf.constant(names), tf.argmax(logits, axis=-1))


def _with_a_column(logits):
    """Logits (B, N) with a last column that is never the greatest: an argmax of N = 0 fails."""
    return tf.pad(logits, [[0, 0], [0, 1]], constant_values=logits.dtype.min)


def _first(rows, kept):
    starts = tf.cast(rows.row_starts(), tf.int32)
    kept = tf.minimum(tf.cast(rows.row_lengths(), tf.int32), kept)
    return tf.gather(rows.flat_values, tf.ragged.range(starts, starts + kept))


def _last(rows, kept):
    limits = tf.cast(rows.row_limits(), tf.int32)
    return tf.gather(rows.flat_values, tf.ragged.range(limits - kept, limits))


def _shown(piece):
    return piece.removeprefix("\u2581") or piece
