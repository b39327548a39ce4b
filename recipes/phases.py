"""Progressive depth: a shallow model's weights as the start of a deeper one.

The paper trained 3 layers from 1, 6 from 3, 12 from 6 and so on (Table 11): where all layers share
their parameters, a deeper model has the same ones.
"""

import keras_albert


def deepen(model, num_layers):
    """An `AlbertPretrainer` of another depth with a model's weights, not compiled.

    Its optimizer is a new one, as for any model that starts from another's weights.

    Raises:
        ValueError: layers have parameters of their own, so that new ones would have none to take;
            `AlbertPretrainer.from_preset(..., num_layers=...)` says what it does then.
    """
    config = model.backbone.get_config()
    if config["sharing"] != "all" or config["num_groups"] != 1:
        raise ValueError(
            "Depth can grow where all layers share their parameters: use sharing='all' and "
            f"num_groups=1. Received: sharing={config['sharing']!r}, "
            f"num_groups={config['num_groups']}"
        )
    config = {name: value for name, value in config.items() if name != "name"}
    backbone = keras_albert.AlbertBackbone.from_config({**config, "num_layers": num_layers})
    deeper = keras_albert.AlbertPretrainer(
        backbone, model.preprocessor, objective=model.objective, compile=False
    )
    deeper.set_weights(model.get_weights())
    return deeper
