"""Answers to strings from an ONNX file: with onnxruntime, sentencepiece and NumPy alone.

Neither Keras nor TensorFlow is needed. Where Keras is installed, any import of this package loads
it, unless the environment has `KERAS_ALBERT_LIGHT=1`.
"""

from keras_albert.runtime.loading import load

__all__ = ["load"]
