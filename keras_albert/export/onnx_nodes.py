"""Writing an ONNX graph node by node: names, constants, weights that are stored once.

Imported only where `onnx` is installed.
"""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

OPSET = 20  # the first with `Gelu`
IR_VERSION = 9  # the one of that opset: older readers take it


class Nodes:
    """The nodes and initializers of a graph that is being written.

    Args:
        half: whether matrices are stored as float16; they are cast to float32 where they are used.
    """

    def __init__(self, half=False):
        self.half = half
        self.nodes = []
        self.stored = {}
        self.cast = {}
        self.scope = ""

    def add(self, op, *inputs, output=None, **attributes) -> str:
        """Add a node, named by the scope that it is in, and give the name of its output."""
        name = f"{self.scope}/{op}_{len(self.nodes)}"
        output = output or name
        self.nodes.append(helper.make_node(op, inputs, [output], name=name, **attributes))
        return output

    def add_two(self, op, *inputs, **attributes) -> tuple[str, str]:
        """Add a node with two outputs."""
        name = f"{self.scope}/{op}_{len(self.nodes)}"
        outputs = (f"{name}:0", f"{name}:1")
        self.nodes.append(helper.make_node(op, inputs, outputs, name=name, **attributes))
        return outputs

    def constant(self, value, dtype="int64") -> str:
        """A constant, stored once whatever number of nodes has it."""
        array = np.asarray(value, dtype)
        return self._store(f"constant/{array.dtype}{array.shape}{array.ravel().tolist()}", array)

    def weight(self, name, value) -> str:
        """A weight in float32, stored under its name by the first node that has it.

        Args:
            name: of this weight and no other.
            value: a function that gives the array.

        Raises:
            ValueError: it is to be stored as float16, which cannot hold it.
        """
        if name not in self.stored:
            self._store(name, np.asarray(value(), "float32"))
        if not self.half or self.stored[name].ndim < 2:
            return name
        if name not in self.cast:
            self.stored[name] = self._halved(name)
            self.cast[name] = self.add("Cast", name, to=TensorProto.FLOAT)
        return self.cast[name]

    def _halved(self, name):
        array = self.stored[name]
        if float(np.abs(array).max(initial=0)) > float(np.finfo("float16").max):
            raise ValueError(
                "Weights that are stored as float16 must be at most 65504. "
                f"Received: {name}, up to {np.abs(array).max():.4g}"
            )
        return array.astype("float16")

    def _store(self, name, array):
        self.stored.setdefault(name, array)
        return name

    def model(self, inputs, outputs, metadata):
        """The whole as an `onnx.ModelProto`.

        Args:
            inputs: a dict of name to (dtype, axes); an axis is a number or a name.
            outputs: the same.
            metadata: a dict of strings.
        """
        sides = [
            [
                helper.make_tensor_value_info(
                    name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), axes
                )
                for name, (dtype, axes) in side.items()
            ]
            for side in (inputs, outputs)
        ]
        weights = [numpy_helper.from_array(array, name) for name, array in self.stored.items()]
        graph = helper.make_graph(self.nodes, "keras_albert", *sides, weights)
        model = helper.make_model(
            graph,
            producer_name="keras_albert",
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
        )
        helper.set_model_props(model, metadata)
        return model
