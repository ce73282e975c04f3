"""Which of our exceptions a function can raise, read from the source: through the calls that can be told apart.

Followed are calls of functions and classes by name, of methods on `self` and on what a function makes itself, and of
functions of a module; what a callback
or a method of another object raises is not seen. What an `except` catches without raising again is taken out.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import harness
from harness import errors

PACKAGE = Path(harness.__file__).parent
OURS = {name: found for name, found in vars(errors).items() if isinstance(found, type) and issubclass(found, Exception)}

Names = frozenset[str]


class Module:
    """One module: its functions and classes by name, and where the names it imports live."""

    def __init__(self, name: str, tree: ast.Module) -> None:
        self.name = name
        self.defined = {node.name: node for node in tree.body
                        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}  # fmt: skip
        self.imported: dict[str, tuple[str, str]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("harness"):
                for alias in node.names:
                    self.imported[alias.asname or alias.name] = (node.module or "", alias.name)


@cache
def module(name: str) -> Module | None:
    """The module of that dotted name, None if there is none."""
    place = PACKAGE.parent / Path(*name.split("."))
    path = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    return Module(name, ast.parse(path.read_text("utf-8"))) if path.is_file() else None


def raised(module_name: str, qualified: str) -> set[str]:
    """Names of our exceptions that the function, or the method `Class.method`, can raise."""
    return set(_raised(module_name, qualified, frozenset()))


def _raised(module_name: str, qualified: str, above: frozenset[tuple[str, str]]) -> Names:
    home = module(module_name)
    if home is None or (module_name, qualified) in above:
        return frozenset()
    owner, _, method = qualified.partition(".")
    node: ast.AST | None = home.defined.get(owner)
    if node is None:
        place = home.imported.get(owner)
        return _raised(place[0], ".".join([place[1], *([method] if method else [])]), above) if place else frozenset()
    inside = node if isinstance(node, ast.ClassDef) else None
    if inside is not None:
        found = _method(home, inside, method or "__init__", above)
        if isinstance(found, frozenset):
            return found
        node = found
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return frozenset()
    reader = _Reader(home, inside, above | {(module_name, qualified)})
    reader.made = {
        target.id: made.value.func.id
        for made in ast.walk(node)
        if isinstance(made, ast.Assign) and isinstance(made.value, ast.Call) and isinstance(made.value.func, ast.Name)
        for target in made.targets
        if isinstance(target, ast.Name)
    }
    return reader.block(node.body)


def _method(home: Module, owner: ast.ClassDef, name: str, above: frozenset[tuple[str, str]]) -> ast.AST | Names | None:
    for node in owner.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            return node
    for base in owner.bases:
        if isinstance(base, ast.Name):
            return _raised(home.name, f"{base.id}.{name}", above)
    return None


class _Reader:
    def __init__(self, home: Module, owner: ast.ClassDef | None, above: frozenset[tuple[str, str]]) -> None:
        self.home, self.owner, self.above = home, owner, above
        self.made: dict[str, str] = {}  # variables, by the class that they are made of

    def block(self, nodes: list[ast.stmt]) -> Names:
        return frozenset().union(*(self.node(node) for node in nodes))

    def node(self, node: ast.AST) -> Names:
        """What this part of a body can raise."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            return frozenset()  # raised when it is called, which is somebody else's business
        if isinstance(node, ast.Try):
            return self._try(node)
        found: set[str] = set()
        if isinstance(node, ast.Raise) and node.exc is not None:
            found |= self._exception(node.exc)
        if isinstance(node, ast.Call):
            found |= self._call(node)
        for child in ast.iter_child_nodes(node):
            found |= self.node(child)
        return frozenset(found)

    def _try(self, node: ast.Try) -> Names:
        found = set(self.block(node.body))
        for handler in node.handlers:
            again = any(isinstance(inner, ast.Raise) and inner.exc is None for inner in ast.walk(handler))
            if not again:
                found -= {name for name in found if any(self._catches(handler.type, base) for base in _bases(name))}
        rest = [self.block(handler.body) for handler in node.handlers]
        return frozenset(found).union(*rest, self.block(node.orelse), self.block(node.finalbody))

    def _catches(self, kind: ast.expr | None, name: str) -> bool:
        if kind is None:
            return True
        kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
        return any(isinstance(one, ast.Name) and one.id == name for one in kinds)

    def _exception(self, node: ast.expr) -> set[str]:
        called = node.func if isinstance(node, ast.Call) else node
        if isinstance(called, ast.Name):
            if called.id in OURS:
                return {called.id}
            made = self._function(called.id)  # `raise no_response(...)`: what it says it returns
            returns = ast.unparse(made.returns) if made is not None and made.returns is not None else ""
            return {returns} & OURS.keys()
        if isinstance(called, ast.Attribute) and called.attr == "error":  # Place.error and Provider.error
            return {"ConfigError"}
        return set()

    def _function(self, name: str) -> ast.FunctionDef | None:
        home, found = self.home, self.home.defined.get(name)
        if found is None and name in home.imported:
            there = module(home.imported[name][0])
            found = there.defined.get(home.imported[name][1]) if there is not None else None
        return found if isinstance(found, ast.FunctionDef) else None

    def _call(self, node: ast.Call) -> Names:
        called = node.func
        if isinstance(called, ast.Name):
            return _raised(self.home.name, called.id, self.above)
        if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
            if called.value.id == "self" and self.owner is not None:
                return _raised(self.home.name, f"{self.owner.name}.{called.attr}", self.above)
            if called.value.id in self.made:
                return _raised(self.home.name, f"{self.made[called.value.id]}.{called.attr}", self.above)
            if called.value.id in self.home.imported:
                place = self.home.imported[called.value.id]
                return _raised(f"{place[0]}.{place[1]}", called.attr, self.above)
        return frozenset()


def _bases(name: str) -> set[str]:
    return {base.__name__ for base in OURS[name].__mro__}
