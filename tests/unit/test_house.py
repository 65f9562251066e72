"""Laws of the house: how its folders import each other, and that a name stands for one thing."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import proxyd

_ROOT = Path(proxyd.__file__).parent


@cache
def _modules() -> dict[str, ast.Module]:
    """Return the syntax trees of all modules by their names."""
    trees = {}
    for path in _ROOT.rglob("*.py"):
        parts = path.relative_to(_ROOT.parent).with_suffix("").parts
        trees[".".join(parts)] = ast.parse(path.read_text(encoding="utf-8"))
    return trees


def _imported(tree: ast.Module, names: frozenset[str]) -> Iterator[str]:
    """Yield the modules that a module imports, anywhere in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                target = f"{node.module}.{alias.name}"
                for name in (target, f"{target}.__init__", node.module, f"{node.module}.__init__"):
                    if name in names:
                        yield name
                        break


def _folder(module: str) -> str:
    return module.rpartition(".")[0]


def test_two_folders_never_import_each_other() -> None:
    modules = _modules()
    names = frozenset(modules)
    imports = defaultdict[tuple[str, str], set[str]](set)
    for module, tree in modules.items():
        for name in _imported(tree, names):
            if _folder(name) != _folder(module):
                imports[_folder(module), _folder(name)].add(f"{module} -> {name}")
    tied = {pair: arrows for pair, arrows in imports.items() if pair[::-1] in imports}
    assert [min(arrows, imports[pair[::-1]], key=len) for pair, arrows in tied.items() if pair < pair[::-1]] == []


def _twice(names: Iterator[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def test_no_file_name_stands_twice() -> None:
    assert _twice(path.name for path in _ROOT.rglob("*.py") if path.name != "__init__.py") == []


def test_no_public_class_name_stands_twice() -> None:
    client = f"{_ROOT.name}.client."  # repeats the names of the wire on purpose
    trees = (tree for module, tree in _modules().items() if not module.startswith(client))
    classes = (node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert _twice(name for name in classes if not name.startswith("_")) == []
