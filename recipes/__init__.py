"""Scripts to read top to bottom and run; installed, the subcommands of `keras-albert`."""
