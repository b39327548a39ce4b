"""Check an export as a server meets it: whole, and right without Keras.

    keras-albert serve-check served/albert/1

Compares every file with the list that was written with it, loads the export in a process that has
neither Keras nor this package, and compares the answers of its signatures with the recorded ones.
Ends with an error that names what is wrong. Some 10 s.
"""

import argparse

from keras_albert_recipes import options


def main(arguments=None):
    """Run the recipe; `arguments` are a list of strings, the command line's by default."""
    args = parser().parse_args(arguments)
    with options.light():  # no Keras is needed
        from keras_albert.export.serve_check import serve_check
    about = serve_check(args.directory)
    vocabulary = about["vocabulary"]
    print(f"{args.directory}: whole, and every signature answers as it did when it was written")
    print(f"  task        {about['task']}")
    print(f"  signatures  {', '.join(about['signatures'])}")
    print(f"  inputs      {', '.join(about['inputs'])}, cut to {about['sequence_length']} tokens")
    if about["labels"]:
        print(f"  labels      {', '.join(about['labels'])}")
    print(f"  vocabulary  {vocabulary['class_name']}, fingerprint {vocabulary['fingerprint'][:12]}")
    print(f"  versions    {', '.join(f'{k} {v}' for k, v in about['versions'].items())}")


def parser():
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="keras-albert serve-check", description=__doc__, formatter_class=options.Help
    )
    parser.add_argument("directory", help="a version directory, as served/albert/1")
    return parser


if __name__ == "__main__":
    main()
