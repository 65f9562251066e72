"""Laws of the house: how its folders import each other."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import proxyd

_ROOT = Path(proxyd.__file__).parent


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
