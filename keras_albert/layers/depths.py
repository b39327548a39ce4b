"""Ways to apply a training block that take less memory or less time than calling it.

A block runs on values alone here, weights and states of dropout's generators among them: a closure
that draws from the generators would draw other masks when it is computed again, or the same ones at
every depth. Their new states are assigned outside, once.
"""

import keras
from keras import ops
from keras.src.backend import AutocastScope  # no public name reads a variable without a cast
from keras.src.backend.common.stateless_scope import in_stateless_scope

# Tokens of a batch up to which a scan is faster than a loop. The loop makes a gradient of the
# weights for each depth and adds them up, which is most of a small step; the scan keeps its
# activations in stacked arrays, which costs large ones more. Of ALBERT base on two CPU cores.
_TOKENS_TO_SCAN = 128


class PureBlock:
    """A block of an `EncoderStack` as a function of its values, for training.

    Args:
        block: a built `TransformerEncoder`.
        **options: its call arguments but `inputs` and `training`.
    """

    def __init__(self, block, **options):
        self.block, self.options = block, options
        self.others = block.non_trainable_variables
        weights = {id(weight) for weight in block.weights}
        frozen = [variable for variable in self.others if id(variable) in weights]
        self.generators = [variable for variable in self.others if id(variable) not in weights]
        # As stored, not in the compute dtype: the depths' gradients of shared weights are then
        # added in float32, as they are without.
        with AutocastScope(None):
            self.trainable = [variable.value for variable in block.trainable_variables]
            self.fixed = {id(variable): variable.value for variable in frozen}
            # Copies: torch's values change in place when they are assigned to.
            self.states = [ops.copy(variable) for variable in self.generators]

    def __call__(self, x, trainable, states):
        """`(output, new states)`."""
        # The options are not among the arguments: TensorFlow adds numbers to those.
        moving = dict(zip(map(id, self.generators), states, strict=True))
        values = {**self.fixed, **moving}
        others = [values[id(variable)] for variable in self.others]
        x, others = self.block.stateless_call(trainable, others, x, **self.options, training=True)
        new = dict(zip(map(id, self.others), others, strict=True))
        return x, [new[id(variable)] for variable in self.generators]

    def assign(self, states):
        """Move the generators on."""
        for variable, state in zip(self.generators, states, strict=True):
            variable.assign(state)


def rematerialize(block, x, **options):
    """A block's output; of its activations, only the inputs are kept."""
    pure = PureBlock(block, **options)
    x, states = keras.remat(pure.__call__)(x, pure.trainable, pure.states)
    pure.assign(states)
    return x


def scans(blocks, x, remat) -> bool:
    """Whether to scan the blocks of a plan in training.

    That is one block at all depths, on JAX, and few tokens; or rematerialisation, which XLA for
    CPUs undoes in a loop.
    """
    if keras.backend.backend() != "jax" or len(blocks) < 3 or len(set(map(id, blocks))) > 1:
        return False
    batch, length = x.shape[:2]
    return remat or (None not in (batch, length) and batch * length <= _TOKENS_TO_SCAN)


def scan(block, x, count, remat, **options):
    """The output of `count` depths that share a block, which XLA compiles once."""
    pure = PureBlock(block, **options)

    def depth(carry, _):
        x, states = carry
        return pure(x, pure.trainable, states), None

    if remat:
        depth = keras.remat(depth)
    (x, states), _ = ops.scan(depth, (x, pure.states), None, length=count)
    pure.assign(states)
    return x


def traced_once(blocks):
    """The same blocks, where TensorFlow makes a graph as functions that it traces once each.

    It then copies them into the graph at every depth: a step takes as long, and begins sooner. The
    last block, which may be asked for some positions alone, stays what it is.
    """
    distinct = {id(block): block for block in blocks[:-1]}
    if keras.backend.backend() != "tensorflow" or len(distinct) > len(blocks) - 2:
        return blocks
    import tensorflow as tf

    # Under a strategy each replica has variables of its own; in a stateless call, new states of
    # dropout would stay within the function.
    if not tf.inside_function() or tf.distribute.has_strategy() or in_stateless_scope():
        return blocks
    layers = [layer for block in distinct.values() for layer in block._flatten_layers()]
    if any(layer.activity_regularizer is not None for layer in layers):
        return blocks  # its loss would stay within the function, too
    functions = {key: tf.function(block, autograph=False) for key, block in distinct.items()}
    return [*(functions[id(block)] for block in blocks[:-1]), blocks[-1]]
