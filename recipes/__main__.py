"""The command `keras-albert`: each subcommand is a recipe, and its options are the recipe's."""

import importlib
import importlib.metadata
import os
import re
import sys

COMMANDS = {  # name -> (module, what it does)
    "pretrain": ("pretrain", "Pretrain on raw text, measure what was learned, fill masks, save."),
    "plot": ("plot", "Draw a run's log: loss, accuracy, gradient norm, rate, speed."),
    "prepare": ("prepare_corpus", "Tokenize a corpus of any size into shards."),
    "inspect": ("inspect_shards", "Show a pretraining example in colour, and statistics."),
    "checkpoint": ("checkpoint", "Describe a checkpoint of ALBERT or BERT, or convert it."),
    "finetune-glue": ("finetune_glue", "Fine-tune on a task of GLUE: classes of texts, or scores."),
    "finetune-ner": ("finetune_ner", "Fine-tune on tagged words: names of people, places, ..."),
    "finetune-squad": ("finetune_squad", "Fine-tune on SQuAD: questions answered from a text."),
    "finetune-race": ("finetune_race", "Fine-tune on RACE: questions with options on a passage."),
    "finetune-swag": ("finetune_swag", "Fine-tune on SWAG: the ending that goes on best."),
    "early-exit": ("early_exit", "Measure what early exits save: speed against accuracy."),
    "export": ("export", "Export a model for TensorFlow Serving: a server that takes strings."),
    "serve-check": ("serve_check", "Check an export as a server meets it."),
    "benchmark": ("benchmark", "Measure speed on this machine, both sides in one run."),
}


def main(arguments=None):
    """Run a subcommand.

    Args:
        arguments: the command line without the program's name; `sys.argv`'s by default.

    Returns:
        The exit status: 0, 1 after an error that the user can mend, 2 for an unknown command, 130
        when interrupted.
    """
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if arguments and arguments[0] == "--version":
        print(importlib.metadata.version("keras-albert"))
        return 0
    if not arguments or arguments[0] not in COMMANDS:
        wanted = arguments[0] if arguments else None
        asked_for_help = wanted in (None, "-h", "--help")
        stream = sys.stdout if asked_for_help else sys.stderr
        if not asked_for_help:
            print(f"keras-albert: there is no command {wanted!r}", file=stream)
        print("usage: keras-albert COMMAND [--help] ...\n", file=stream)
        for name, (_, text) in COMMANDS.items():
            print(f"  {name:<15} {text}", file=stream)
        return 0 if asked_for_help else 2
    # Nothing of the package is imported before: preparing text does without most of it.
    recipe = importlib.import_module(f"keras_albert_recipes.{COMMANDS[arguments[0]][0]}")
    try:
        recipe.main(arguments[1:])
    except KeyboardInterrupt:
        print(f"\nkeras-albert {arguments[0]}: interrupted.", file=sys.stderr)
        if text := getattr(recipe, "INTERRUPTED", ""):
            print(text, file=sys.stderr)
        return 130
    except (ValueError, OSError, RuntimeError, ImportError) as error:
        if os.environ.get("KERAS_ALBERT_TRACEBACK"):
            raise
        # Messages say what to do; the traceback of a wrong argument helps nobody.
        message = in_options(str(error), recipe.parser())
        print(f"\nkeras-albert {arguments[0]}: {message}", file=sys.stderr)
        print("(KERAS_ALBERT_TRACEBACK=1 shows where this was raised.)", file=sys.stderr)
        return 1
    return 0


def in_options(message, parser):
    """An error's message with arguments of Python as they are typed: `overwrite=True`, --overwrite.

    Names that are no options of this command stay as they are.
    """
    names = {
        action.dest: action.option_strings[-1] if action.option_strings else action.dest.upper()
        for action in parser._actions
    }

    def typed(match):
        option = names.get(match["name"])
        if option is None:
            return match[0]
        value = match["value"]
        return option if value in (None, "True") else f"{option} {value}"

    # In backticks, then as a received value; the function that the argument is of is not named.
    message = re.sub(
        r"`(?P<name>\w+)(?:=(?P<value>[^`]+))?`(?: of [A-Za-z_]\w*\b)?", typed, message
    )
    return re.sub(r"\b(?P<name>\w+)=(?P<value>)(?=\S)", typed, message)


if __name__ == "__main__":
    sys.exit(main())
