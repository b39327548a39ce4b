"""What a server answers to questions: windows over the context, the model, and the best span.

The rules are those of `preprocessing.squad` and `preprocessing.span_decoding`, in a graph.

Shapes: B batch, R windows of all questions, S sequence, T tokens of a window, L lengths of answers.
"""

import tensorflow as tf

from keras_albert.export.graph_offsets import tokenize_with_offsets
from keras_albert.export.graph_text import cut_to_longest
from keras_albert.export.served_tasks import ServedTask
from keras_albert.preprocessing.normalizer import clean_unicode_tf
from keras_albert.preprocessing.span_decoding import MASKED

MAX_WINDOWS = 32  # of a context; what is beyond is not read
MAX_ANSWER_LENGTH = 30  # tokens


class ServedSpans(ServedTask):
    """`answer`, `start`, `end`, `score`, `null_score`, `null_odds`, each (B,).

    Characters `start` to `end` are of the context; `answer` is "" where there is none, or where
    `null_odds` are above the model's `null_threshold`. Of ids: what the model gives.
    """

    strings = {"question": [None], "context": [None]}

    def answer_texts(self, question, context):
        same = tf.debugging.assert_equal(
            tf.shape(question),
            tf.shape(context),
            "`question` and `context` must have as many rows.",
        )
        with tf.control_dependencies([same]):
            context = clean_unicode_tf(context)
        ids, starts, ends = tokenize_with_offsets(self.tokenizer, context)
        question_ids = self.text.tokenize(question)[:, : self.model.preprocessor.max_query_length]
        windows = _Windows(
            tf.cast(ids.row_lengths(), tf.int32),
            self.text.sequence_length - 3 - tf.cast(question_ids.row_lengths(), tf.int32),
            self.model.preprocessor.doc_stride,
            ids,
            starts.flat_values == ends.flat_values,
        )
        packed = self.text.packer.call(
            (tf.gather(question_ids, windows.question), tf.gather(ids.flat_values, windows.places))
        )
        outputs = self.answer_ids(**cut_to_longest(packed))
        offset_R = 2 + tf.gather(tf.cast(question_ids.row_lengths(), tf.int32), windows.question)
        may_start_RT = windows.has_most_context()
        if self.model.head == "beam":
            score_R, first_R, last_R, null_R = _best_of_beams(
                outputs, offset_R, may_start_RT, windows
            )
        else:
            score_R, first_R, last_R, null_R = _best_spans(outputs, offset_R, may_start_RT, windows)
        return self._answers(context, starts, ends, windows, score_R, first_R, last_R, null_R)

    def _answers(self, context, starts, ends, windows, score_R, first_R, last_R, null_R):
        count = tf.shape(context)[0]
        score_B = tf.math.unsorted_segment_max(score_R, windows.question, count)
        is_best_R = score_R == tf.gather(score_B, windows.question)
        row_R = tf.range(tf.size(score_R))
        beyond = tf.size(score_R)
        best_B = tf.math.unsorted_segment_min(
            tf.where(is_best_R, row_R, beyond), windows.question, count
        )
        null_B = tf.math.unsorted_segment_min(null_R, windows.question, count)
        found_B = score_B > MASKED
        first_B, last_B = (tf.gather(tf.concat([x, [0]], 0), best_B) for x in (first_R, last_R))
        start_B = tf.gather(tf.concat([starts.flat_values, [0]], 0), first_B)
        end_B = tf.gather(tf.concat([ends.flat_values, [0]], 0), last_B)
        score_B = tf.where(found_B, score_B, 0.0)
        odds_B = null_B if self.model.head == "beam" else null_B - score_B
        if self.model.null_threshold is not None:
            found_B &= odds_B <= self.model.null_threshold
        start_B, end_B = (tf.where(found_B, x, 0) for x in (start_B, end_B))
        return {
            "answer": tf.strings.substr(context, start_B, end_B - start_B, "UTF8_CHAR"),
            "start": start_B,
            "end": end_B,
            "score": score_B,
            "null_score": null_B,
            "null_odds": odds_B,
        }

    def answer_ids(self, **x):
        if self.model.head == "linear":
            return self.run(self.text.fit(x))
        length = tf.minimum(tf.shape(x["token_ids"])[1], self.text.sequence_length)
        x = self.text.fit(x, least=self.model.beam_head.beam_size)  # as many as it looks for
        x["start_positions"] = tf.zeros([tf.shape(x["token_ids"])[0]], tf.int32)
        outputs = self.run(x)
        return {**outputs, **{name: outputs[name][:, :length] for name in ("start", "end")}}


class _Windows:
    """The windows of all contexts: `split_windows` and `maximum_context` in a graph.

    Attributes:
        question: (R,), the question that a window is of.
        places: ragged (R, None), its tokens among those of all contexts, joined.
        lengths: (R,).
        is_empty: (R, T), tokens that are white space alone, and no answer by themselves.
    """

    def __init__(self, length_B, capacity_B, stride, ids, is_empty):
        step_B = tf.minimum(stride, capacity_B)
        more_B = tf.maximum(length_B - capacity_B, 0)
        count_B = tf.minimum(1 + (more_B + step_B - 1) // step_B, MAX_WINDOWS)
        self.question = tf.repeat(tf.range(tf.size(count_B)), count_B)
        number = tf.ragged.range(count_B).flat_values
        begin = number * tf.gather(step_B, self.question)
        length, capacity = (tf.gather(x, self.question) for x in (length_B, capacity_B))
        end = tf.minimum(begin + capacity, length)
        at = tf.gather(tf.cast(ids.row_starts(), tf.int32), self.question)
        self.places = tf.ragged.range(at + begin, at + end)
        self.lengths = end - begin
        self.num_tokens = tf.size(ids.flat_values)
        is_empty = self.places.with_flat_values(tf.gather(is_empty, self.places.flat_values))
        self.is_empty = is_empty.to_tensor(False)

    def has_most_context(self):
        """(R, T): whether a token has more context here than in any other window."""
        index = tf.ragged.range(self.lengths)
        window = index.value_rowids()
        length = tf.gather(self.lengths, window)
        context = tf.minimum(index.flat_values, length - 1 - index.flat_values)
        score = tf.cast(context, tf.float64) + 0.01 * tf.cast(length, tf.float64)
        token = self.places.flat_values
        best = tf.math.unsorted_segment_max(score, token, self.num_tokens)
        row = tf.cast(window, tf.int32)
        beyond = tf.size(self.lengths)
        first = tf.math.unsorted_segment_min(
            tf.where(score == tf.gather(best, token), row, beyond), token, self.num_tokens
        )
        mine = index.with_flat_values(row == tf.gather(first, token))
        return mine.to_tensor(False)


def _of_context(logits_RS, offset_R, count):
    """Logits of the window's tokens alone, (R, T)."""
    places_RT = offset_R[:, None] + tf.range(count)
    places_RT = tf.minimum(places_RT, tf.shape(logits_RS)[1] - 1)
    return tf.gather(logits_RS, places_RT, batch_dims=1)


def _best_spans(outputs, offset_R, may_start_RT, windows):
    """The best span of each window: its score, its first and last token, and the null score."""
    count = tf.shape(may_start_RT)[1]
    start_RT = _of_context(outputs["start"], offset_R, count)
    end_RT = _of_context(outputs["end"], offset_R, count)
    in_window_RT = tf.sequence_mask(windows.lengths, count)
    start_RT = tf.where(may_start_RT, start_RT, MASKED)
    end_RT = tf.where(in_window_RT, end_RT, MASKED)
    ends_R = tf.pad(end_RT, [[0, 0], [0, MAX_ANSWER_LENGTH - 1]], constant_values=MASKED)
    where_TL = tf.range(count)[:, None] + tf.range(MAX_ANSWER_LENGTH)
    end_RTL = tf.gather(ends_R, where_TL, axis=1)
    start_RT1 = start_RT[..., None]
    possible = (start_RT1 > MASKED) & (end_RTL > MASKED)
    is_one_L = tf.range(MAX_ANSWER_LENGTH) == 0
    possible &= tf.logical_not(windows.is_empty[..., None] & is_one_L)
    score_RTL = tf.where(possible, start_RT1 + end_RTL, MASKED)
    # A window without a token still has a column, so that there is something to choose from.
    flat = tf.reshape(score_RTL, [tf.size(offset_R), count * MAX_ANSWER_LENGTH])
    flat = tf.pad(flat, [[0, 0], [0, 1]], constant_values=MASKED)
    best_R = tf.argmax(flat, axis=1, output_type=tf.int32)
    first_R, length_R = best_R // MAX_ANSWER_LENGTH, best_R % MAX_ANSWER_LENGTH
    at_R = tf.cast(windows.places.row_starts(), tf.int32)
    first_R, last_R = (_token(windows, at_R + x) for x in (first_R, first_R + length_R))
    null_R = outputs["start"][:, 0] + outputs["end"][:, 0]
    return tf.reduce_max(flat, axis=1), first_R, last_R, null_R


def _best_of_beams(outputs, offset_R, may_start_RT, windows):
    """The same from the beam head's K starts and K ends for each."""
    count = tf.shape(may_start_RT)[1]
    first_RK1 = (outputs["beam_starts"] - offset_R[:, None])[..., None]
    last_RKK = outputs["beam_ends"] - offset_R[:, None, None]
    first_RKK = first_RK1 + tf.zeros_like(last_RKK)
    place = tf.where(first_RKK >= 0, tf.minimum(first_RKK, count), count)
    may_start_RKK, is_empty_RKK = (
        tf.gather(tf.pad(x, [[0, 0], [0, 1]]), place, batch_dims=1)
        for x in (may_start_RT, windows.is_empty)
    )
    length_RKK = last_RKK - first_RKK + 1
    start_RK1 = outputs["beam_start_log_probs"][..., None]
    end_RKK = outputs["beam_end_log_probs"]
    possible = may_start_RKK & (last_RKK < windows.lengths[:, None, None])
    possible &= (length_RKK >= 1) & (length_RKK <= MAX_ANSWER_LENGTH)
    possible &= (start_RK1 > MASKED) & (end_RKK > MASKED)
    possible &= tf.logical_not(is_empty_RKK & (length_RKK == 1))
    rows = tf.size(offset_R)
    size = outputs["beam_ends"].shape[1] * outputs["beam_ends"].shape[2]
    flat = tf.reshape(tf.where(possible, start_RK1 + end_RKK, MASKED), [rows, size])
    best_R = tf.argmax(flat, axis=1, output_type=tf.int32)
    at_R = tf.cast(windows.places.row_starts(), tf.int32)
    chosen = (
        tf.gather(tf.reshape(x, [rows, size]), best_R, batch_dims=1) for x in (first_RKK, last_RKK)
    )
    first_R, last_R = (_token(windows, at_R + x) for x in chosen)
    return tf.reduce_max(flat, axis=1), first_R, last_R, outputs["unanswerable"]


def _token(windows, index):
    """Tokens of the joined contexts, from places among those of all windows."""
    places = tf.concat([windows.places.flat_values, [0]], axis=0)
    return tf.gather(places, tf.clip_by_value(index, 0, tf.size(places) - 1))
