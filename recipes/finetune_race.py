"""Fine-tune an ALBERT on RACE: questions of school exams about a passage, with four options.

    keras-albert finetune-race --preset albert_base_v2.tar.gz --data RACE
    keras-albert finetune-race --preset run/preset --data RACE --level middle --split test

Steps, rate, batch and lengths are those of the paper's Table 14 (appendix A.4). A preset with "v2"
in its name takes the rate 1e-5 and no dropout, as the authors do: the rate of version 1 makes these
diverge. Encoders narrower than 768 take a rate of 1e-3. `--held-out` leaves the development set
alone and measures on a share of the training passages, never on a passage that was trained on.

Into `--output`: `preset/` of the seed with the best accuracy, curves.png and results.json.

Only tried: on a handful of passages (17 questions to measure on) it runs to the end in a minute on
a CPU, and `albert_tiny` after an hour of pretraining on 23 books stays at chance: 17.6 and 29.4 for
two seeds; chance 25.0, TF-IDF likeness 41.2. Nothing can be said of RACE itself.
"""

import argparse
import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # the start-up notes of TensorFlow

from keras_albert_recipes import finetuning, finetuning_choices, options  # noqa: E402

from keras_albert.datasets import load_race  # noqa: E402

OUTPUT = "run-race"
PAPER = finetuning.Settings(2e-5, 32, 0.1, 12_000, 1_000, 512)
PAPER_V2 = PAPER._replace(learning_rate=1e-5, dropout=0.0)
PAPER_SCORES = {  # the paper, abstract and table 10; the authors' README
    "ALBERT-base, paper": {"accuracy": 0.640},
    "ALBERT-xxlarge, paper": {"accuracy": 0.865, "high": 0.855, "middle": 0.890},
    "  its ensemble": {"accuracy": 0.894},
}
SMALL_RATE = 1e-3
INTERRUPTED = finetuning.INTERRUPTED


def main(arguments=None):
    """Run the recipe; `arguments` are a list of strings, the command line's by default."""
    args = parser().parse_args(arguments)
    train = load_race(args.data, level=args.level)
    if args.held_out is None:
        dev = load_race(args.data, split=args.split, level=args.level)
    else:
        train, dev = finetuning_choices.split_by(train, train.x[0], args.held_out)
    paper = PAPER_V2 if "v2" in pathlib.Path(args.preset).name else PAPER
    groups = None
    if all(name.startswith(("middle", "high")) for name in dev.ids):
        groups = ["middle" if name.startswith("middle") else "high" for name in dev.ids]
    finetuning_choices.run("RACE", args, train, dev, paper, SMALL_RATE, PAPER_SCORES, groups=groups)


def parser():
    """The command line; its defaults are the constants above."""
    parser = argparse.ArgumentParser(
        prog="keras-albert finetune-race", description=__doc__, formatter_class=options.Help
    )
    add = parser.add_argument
    add("--data", required=True, help="the directory RACE, with train/ and dev/")
    add("--level", default="all", choices=("middle", "high", "all"), help="of the exams")
    add("--split", default="dev", choices=("dev", "test"), help="to measure on")
    add("--held-out", type=float, help="measure on this share of the training passages instead")
    finetuning.add_options(parser, OUTPUT)
    return parser


if __name__ == "__main__":
    main()
