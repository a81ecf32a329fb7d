"""A module imports only modules above it in the house."""

import ast
from pathlib import Path

import sizeshiftreg
from sizeshiftreg.datasets import TU_DATASETS
from sizeshiftreg.synthetic import SYNTHETIC

PACKAGE = Path(sizeshiftreg.__file__).parent
# From the top down; each may import what stands before it.
ORDER = [
    "errors",
    "synthetic",
    "datasets",
    "splits",
    "coarsening.threads",
    "coarsening.adjacency",
    "coarsening.agglomeration",
    "coarsening.levels",
    "coarsening.spectral",
    "coarsening.clustering",
    "coarsening.multilevel",
    "coarsening.matching",
    "coarsening.variation",
    "coarsening",
    "coarsening.cache",
    "coarsening.contract",
    "coarsening.transform",
    "export",
    "draw",
    "kernels",
    "store",
    "encoders",
    "models",
    "hooks",
    "discrepancies",
    "regularizers",
    "metrics",
    "training",
    "estimator",
    "lightning",
    "experiment",
    "results",
    "recipes",
    "reproduce",
    "report",
    "cli",
]


def modules() -> dict[str, Path]:
    found = {}
    for path in PACKAGE.rglob("*.py"):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
        if name != "__init__":
            found[name] = path
    return found


def imports(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("sizeshiftreg."):
            names.add(node.module.removeprefix("sizeshiftreg."))
        elif isinstance(node, ast.ImportFrom) and (node.level or node.module == "sizeshiftreg"):
            names.add("the package itself")
        elif isinstance(node, ast.Import):
            names |= {name.name for name in node.names if name.name.startswith("sizeshiftreg")}
    return names


def test_every_module_has_its_place():
    assert sorted(modules()) == sorted(ORDER)


def test_imports_point_up():
    for name, path in modules().items():
        below = imports(path) - set(ORDER[: ORDER.index(name)])
        assert not below, f"{name} imports {below}, which do not stand above it"


def test_every_module_says_what_it_is_in_its_first_line():
    for name, path in modules().items():
        docstring = ast.get_docstring(ast.parse(path.read_text()))
        assert docstring and docstring.splitlines()[0].endswith((".", ":")), name


def test_only_cli_prints():
    for name, path in modules().items():
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        prints = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "print"]
        assert not prints or name == "cli", name


def test_data_set_names_stand_only_in_datasets_and_recipes():
    for name, path in modules().items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and name not in ("datasets", "synthetic"):
                in_code = "\n" not in node.value and not node.value.startswith(">>>")
                assert not (in_code and node.value in {*TU_DATASETS, *SYNTHETIC}), f"{name}: {node.value}"
