"""Task models for servers: a SavedModel that takes strings, and the check of one."""

from keras_albert.export.serve_check import serve_check
from keras_albert.light import is_light

if not is_light():
    from keras_albert.export.litert import litert
    from keras_albert.export.onnx import onnx
    from keras_albert.export.saved_model import saved_model

__all__ = ["litert", "onnx", "saved_model", "serve_check"]
