"""Oracle: the layout's rule that imports run one way, read from the syntax tree."""

import ast
import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT

PACKAGE = ROOT / "keras_albert"
MAY_IMPORT = {
    "layers": {"arguments", "layers"},
    "training": {"arguments", "training"},
    "preprocessing": {"arguments", "light", "preprocessing", "whole_files"},
    "data": {"arguments", "data", "light", "preprocessing", "version"},
    "datasets": {"arguments", "datasets", "whole_files"},
    "models": {"arguments", "models", "layers", "training", "preprocessing"},
    "checkpoints": {"arguments", "checkpoints", "models", "preprocessing"},
    "export": {
        *("arguments", "export", "layers", "light", "models", "preprocessing"),
        *("runtime", "whole_files"),
    },
    "runtime": {"arguments", "preprocessing", "runtime"},
}
# At the top of a module; anything else is imported inside the one function that needs it.
TOP_LEVEL = {
    "layers": {"keras", "torch"},  # torch in a module that its backend alone imports
    "training": {"keras", "numpy"},
    "preprocessing": {"keras", "keras_hub", "numpy", "regex"},
    "data": {"keras", "numpy", "rich"},
    "datasets": {"numpy"},
    "models": {"keras", "keras_hub", "numpy"},
    "checkpoints": {"keras", "numpy"},
    # TensorFlow and ONNX in modules that are imported for an export alone.
    "export": {"keras", "numpy", "onnx", "tensorflow"},
    "runtime": {"numpy"},
}


def imports(path):
    """(module, is at the top level) of every import statement of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    top = {id(node) for node in tree.body}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, id(node) in top) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative import"
            names = [a.name for a in node.names] if node.module == "keras_albert" else []
            yield from ((f"keras_albert.{name}", id(node) in top) for name in names)
            if not names:
                yield node.module, id(node) in top


@pytest.mark.parametrize("folder", MAY_IMPORT)
def test_imports_run_one_way(folder):
    files = sorted((PACKAGE / folder).rglob("*.py"))
    assert files
    for path in files:
        for module, at_top in imports(path):
            root, *rest = module.split(".")
            if root == "keras_albert":
                # The package itself, in the one process that converts a model.
                assert not rest or rest[0] in MAY_IMPORT[folder], f"{path} imports {module}"
            elif at_top and root not in sys.stdlib_module_names:
                assert root in TOP_LEVEL[folder], f"{path} imports {module} at the top"


def test_the_checks_of_arguments_import_nothing_but_the_standard_library():
    names = {module.split(".")[0] for module, _ in imports(PACKAGE / "arguments.py")}
    assert names <= set(sys.stdlib_module_names)


def test_the_rules_cover_every_folder_with_code():
    folders = {path.parent.name for path in PACKAGE.rglob("*.py")} - {"keras_albert"}
    assert folders == set(MAY_IMPORT)


def test_importing_the_package_loads_no_backend_that_keras_hub_does_not():
    program = (
        "import sys, keras_hub; before = set(sys.modules); import keras_albert;"
        "heavy = {'tensorflow', 'tensorflow_text', 'jax', 'torch', 'transformers', 'matplotlib',"
        " 'apache_beam', 'onnx', 'grain', 'safetensors', 'array_record', 'sentencex',"
        " 'datasets', 'tensorflow_datasets', 'sklearn', 'scipy.stats'};"
        "print(sorted(heavy & (set(sys.modules) - before)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=os.environ, cwd=ROOT
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip().splitlines()[-1] == "[]"


def test_every_package_is_installed():
    import tomllib

    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {
        ".".join(path.parent.relative_to(ROOT).parts)
        for path in PACKAGE.rglob("*.py")
        if "__pycache__" not in path.parts
    }
    assert set(settings["packages"]) == folders | {"keras_albert_recipes"}


@pytest.mark.backend_free
@pytest.mark.parametrize(("keras_is_there", "asked"), [(True, ""), (True, "1"), (False, "")])
def test_the_package_is_light_where_it_is_asked_to_be_or_has_no_keras(
    monkeypatch, keras_is_there, asked
):
    from keras_albert import light

    monkeypatch.setenv(light.LIGHT, asked)
    monkeypatch.setattr(
        light.importlib.util, "find_spec", lambda name: object() if keras_is_there else None
    )
    assert light.is_light() == (bool(asked) or not keras_is_there)
