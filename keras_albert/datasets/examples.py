"""What the readers give: columns ready for `fit(x, y)`."""

import dataclasses

import numpy as np

from keras_albert.arguments import check, check_integers, is_number


@dataclasses.dataclass(frozen=True, eq=False)
class Examples:
    """Examples for fine-tuning, as columns of equal length.

    Attributes:
        x: a list with one entry for each example (a text, or a list of words), or a tuple of such
            lists: `(first, second)` for pairs, `(context, question, options)` for choices.
        y: int32 (N,) classes, float32 (N,) scores, a list of N int32 arrays of tags, or None where
            the labels are not given, as in the test sets of GLUE.
        ids: a list of the N identifiers in the files.
        label_names: the names of the classes; `()` for scores and choices.

    Example:
    ```python
    train = keras_albert.datasets.load_glue("SST-2", "glue", split="train")
    train, rest = train.split(0.9, seed=0)
    classifier.fit(train.x, train.y)
    ```
    """

    x: list | tuple
    y: np.ndarray | list | None
    ids: list
    label_names: tuple[str, ...] = ()

    def __post_init__(self):
        columns = [*self.x] if isinstance(self.x, tuple) else [self.x]
        columns += [self.ids] if self.y is None else [self.ids, self.y]
        lengths = [len(column) for column in columns]
        if len(set(lengths)) != 1:
            raise ValueError(f"The columns must be of one length. Received: lengths {lengths}")

    def __len__(self):
        return len(self.ids)

    def select(self, indices) -> "Examples":
        """The examples at these integer places, in this order."""
        indices = [int(index) for index in indices]
        pick = lambda column: [column[index] for index in indices]
        x = tuple(map(pick, self.x)) if isinstance(self.x, tuple) else pick(self.x)
        y = self.y[indices] if isinstance(self.y, np.ndarray) else self.y and pick(self.y)
        return dataclasses.replace(self, x=x, y=y, ids=pick(self.ids))

    def take(self, n: int) -> "Examples":
        """The first `n`, or all where there are fewer."""
        check_integers("take", 0, n=n)
        return self.select(range(min(n, len(self))))

    def shuffled(self, seed: int) -> "Examples":
        """All of them in a random order, the same for the same seed."""
        check_integers("shuffled", 0, seed=seed)
        return self.select(np.random.default_rng(seed).permutation(len(self)))

    def split(self, fraction: float, seed: int) -> tuple["Examples", "Examples"]:
        """Two disjoint random parts; the first holds `round(fraction * len(self))` examples."""
        rule = "a number above 0 and below 1"
        check("split", rule, lambda value: is_number(value) and 0 < value < 1, fraction=fraction)
        check_integers("split", 0, seed=seed)
        order = np.random.default_rng(seed).permutation(len(self))
        first = round(fraction * len(self))
        return self.select(order[:first]), self.select(order[first:])
