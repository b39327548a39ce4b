"""Fine-tune an ALBERT on SWAG: which of four endings goes on with a description?

    keras-albert finetune-swag --preset albert_base_v2.tar.gz --train train.csv --dev val.csv
    keras-albert finetune-swag --preset run/preset --train train.csv --held-out 0.2 --epochs 5

The ALBERT paper has no SWAG: the settings are those of BERT's paper (section 4.4: 3 epochs, batch
16, rate 2e-5), with a warm-up of a tenth. Encoders narrower than 768 take a rate of 1e-3. Without
`--dev`, rows are held out.

Into `--output`: `preset/` of the seed with the best accuracy, curves.png and results.json.

Measured with `albert_tiny` after an hour of pretraining on 23 books, on HellaSwag in SWAG's columns
(800 rows; 320 to train on, 160 held out; 2 epochs, length 64; 2.4 minutes a seed on two busy CPU
cores, PyTorch): accuracy 23.8 and 27.5 for two seeds, median 25.6, ensemble 25.0. That is chance,
25.0; TF-IDF likeness has 31.9, the longest option 22.5. Sampling alone gives +-3.4.
"""

import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # the start-up notes of TensorFlow

from keras_albert_recipes import finetuning, finetuning_choices, options  # noqa: E402

from keras_albert.datasets import load_swag  # noqa: E402

OUTPUT = "run-swag"
PAPER = finetuning.Settings(2e-5, 16, 0.1, 13_791, 1_379, 128)  # 3 passes over 73,546 rows
PAPER_SCORES = {  # on the official development set; Devlin et al. (2019), table 4
    "BERT-base, its paper": {"accuracy": 0.816},
    "BERT-large, its paper": {"accuracy": 0.866},
}
SMALL_RATE = 1e-3
HELD_OUT = 0.2
INTERRUPTED = finetuning.INTERRUPTED


def main(arguments=None):
    """Run the recipe; `arguments` are a list of strings, the command line's by default."""
    args = parser().parse_args(arguments)
    train = load_swag(args.train)
    if args.dev:
        dev = load_swag(args.dev, split="dev")
    else:
        rows = list(range(len(train)))
        train, dev = finetuning_choices.split_by(train, rows, args.held_out)
    finetuning_choices.run("SWAG", args, train, dev, PAPER, SMALL_RATE, PAPER_SCORES)


def parser():
    """The command line; its defaults are the constants above."""
    parser = argparse.ArgumentParser(
        prog="keras-albert finetune-swag", description=__doc__, formatter_class=options.Help
    )
    add = parser.add_argument
    add("--train", required=True, help="train.csv")
    add("--dev", help="val.csv")
    add("--held-out", type=float, default=HELD_OUT, help="share of the rows, without --dev")
    finetuning.add_options(parser, OUTPUT)
    return parser


if __name__ == "__main__":
    main()
