"""SentencePiece models as `tokenizer.json`, Hugging Face's form of a vocabulary, and back.

transformers makes the one from the other by itself only where its protobuf is as new as
sentencepiece's, which TensorFlow's is not.
"""

import base64
import functools
from pathlib import Path

from keras_albert.preprocessing import AlbertTokenizer

_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED = 1, 2, 3, 4  # types of a piece
_UNK_ID = 1  # in ALBERT's vocabularies


def write_fast_tokenizer(tokenizer: AlbertTokenizer, path: Path) -> None:
    """Write a tokenizer as the `tokenizer.json` that transformers makes of its vocabulary."""
    from tokenizers import Tokenizer, decoders, normalizers, pre_tokenizers, processors
    from tokenizers.models import Unigram

    model = _model_class().FromString(tokenizer.proto)
    pieces = [(piece.piece, piece.score) for piece in model.pieces]
    fast = Tokenizer(Unigram(pieces, unk_id=tokenizer.unk_token_id, byte_fallback=False))
    steps = [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
    if tokenizer.strip_accents:
        steps += [normalizers.NFKD(), normalizers.StripAccents()]
    if tokenizer.lowercase:
        steps.append(normalizers.Lowercase())
    if model.normalizer_spec.precompiled_charsmap:
        steps.append(normalizers.Precompiled(model.normalizer_spec.precompiled_charsmap))
    fast.normalizer = normalizers.Sequence(steps)
    fast.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")]
    )
    fast.decoder = decoders.Metaspace(prepend_scheme="always")
    cls, sep = tokenizer.cls_token, tokenizer.sep_token
    fast.post_processor = processors.TemplateProcessing(
        single=f"{cls}:0 $A:0 {sep}:0",
        pair=f"{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1",
        special_tokens=[(cls, tokenizer.cls_token_id), (sep, tokenizer.sep_token_id)],
    )
    # Symbols of the user, such as "(", are left to the search, where their score of 0 always wins:
    # as added tokens they would lose the space before them.
    fast.add_special_tokens([pieces[id][0] for id in tokenizer.special_token_ids])
    path.write_text(fast.to_str(), encoding="utf-8")


def read_fast_tokenizer(config: dict) -> tuple[bytes, dict] | None:
    """The SentencePiece model, and AlbertTokenizer's arguments, in a parsed `tokenizer.json`.

    Returns:
        None where its vocabulary is of another kind than ALBERT's.
    """
    model = config.get("model") or {}
    pieces = model.get("vocab")
    if model.get("type") != "Unigram" or not isinstance(pieces, list) or model.get("byte_fallback"):
        return None
    added = config.get("added_tokens") or ()
    special = {token["content"] for token in added if token["special"]}
    proto = _model_class()()
    for id, (piece, score) in enumerate(pieces):
        kind = _NORMAL if score else _USER_DEFINED  # no piece that was counted has a score of 0
        if piece in special:
            kind = _CONTROL
        if id == model.get("unk_id"):
            kind = _UNKNOWN
        proto.pieces.add(piece=piece, score=score, type=kind)
    normalizer = config.get("normalizer") or {}
    steps = normalizer.get("normalizers", [normalizer])
    for step in steps:
        if step.get("type") == "Precompiled":
            charsmap = base64.b64decode(step["precompiled_charsmap"], validate=True)
            proto.normalizer_spec.precompiled_charsmap = charsmap
    proto.trainer_spec.unk_id = model.get("unk_id", _UNK_ID)
    kinds = {step.get("type") for step in steps}
    arguments = {"lowercase": "Lowercase" in kinds, "strip_accents": "StripAccents" in kinds}
    return proto.SerializeToString(deterministic=True), arguments


@functools.cache
def _model_class():
    """The part of SentencePiece's `ModelProto` that is needed here; the rest is kept as it is.

    Described here, as the class that sentencepiece brings refuses TensorFlow's protobuf.
    """
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="keras_albert/sentencepiece.proto", package="sentencepiece", syntax="proto2"
    )

    def add(message, name, number, kind, label=field.LABEL_OPTIONAL, **options):
        if isinstance(kind, str):
            kind, options = field.TYPE_MESSAGE, {**options, "type_name": f".sentencepiece.{kind}"}
        message.field.add(name=name, number=number, type=kind, label=label, **options)

    piece = file.message_type.add(name="Piece")
    add(piece, "piece", 1, field.TYPE_STRING)
    add(piece, "score", 2, field.TYPE_FLOAT)
    add(piece, "type", 3, field.TYPE_INT32, default_value=str(_NORMAL))
    add(file.message_type.add(name="TrainerSpec"), "unk_id", 40, field.TYPE_INT32)
    charsmap = file.message_type.add(name="NormalizerSpec")
    add(charsmap, "precompiled_charsmap", 2, field.TYPE_BYTES)
    model = file.message_type.add(name="Model")
    add(model, "pieces", 1, "Piece", field.LABEL_REPEATED)
    add(model, "trainer_spec", 2, "TrainerSpec")
    add(model, "normalizer_spec", 3, "NormalizerSpec")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("sentencepiece.Model"))
