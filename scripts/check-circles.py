#!/usr/bin/env python3
"""No two files of a crate import each other, directly or round about.

What is read: every file that the module tree of a crate reaches from src/lib.rs and src/main.rs. Tests (`#[cfg(test)]`,
`#[test]`), examples and benches are not read. Where a module has a file for each system (`cfg_attr(…, path = …)`), all
of them are read and stand for the module together.

What is an import of file A from file B: a `use` item in A, or a path anywhere in A's code (an expression, a type, the
inside of a macro call), that starts with `crate`, `self`, `super`, or with a module or a name that a `use` of A brought
in, and that ends in B. `mod x;` is no import: a parent may hold children that it does not use.

Where a path ends: it is followed through the module tree as far as it names modules. Its next segment is then
* an item that the module's own file defines: the path ends in that file;
* a name that the file itself imports (`pub use child::X`, or a private `use` that a child borrows through `super::X`):
  the path ends in the file that *defines* X, and each `use` that it passes on its way is that file's own import. So a
  door (`mod.rs` with `pub use`) does not tie its rooms to one another, but a child that needs an item which the door
  defines, while the door imports the child, is a circle;
* a glob (`use super::*`): ends in the module's file;
* an enum's variant, a method, a constant of a type: where the type is.
Paths that leave the crate are not followed. A trait's methods and a value's fields bind no file: only names do.

What is no import: what a module takes from a module that *encloses* it (`super::X` with X defined in the parent's file). A
parent and its children are read from the outside in, and Rust's privacy is made for that: a child sees its parent's
private items. The opposite way counts: a parent imports its children, `pub use child::X` included. So two children that
know each other, a child that takes from a cousin that takes from the child's parent, two folders that use each other:
all of these are circles.

ALLOWED names the folders in which circles are still allowed, as prefixes of paths: a circle all of whose files stand in one
of them is passed over. The list only shrinks: a folder in which no circle is left makes its entry an error, so that
what was opened stays open.
"""

import dataclasses
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

ALLOWED: list[str] = []

TOKEN = re.compile(
    r"""//[^\n]*|/\*|(?:b|c)?r(?P<hashes>\#*)"|(?:b|c)?"(?:[^"\\]|\\.)*"|b?'(?:[^'\\]|\\(?:x..|u\{[^}]*\}|.))'"""
    r"""|(?P<word>(?:r\#)?[A-Za-z_][A-Za-z0-9_]*)|(?P<colons>::)|(?P<life>'[A-Za-z_]\w*)|\d[\w.]*?(?=\.\.|[^\w.]|\Z)"""
    r"""|(?P<mark>[^\s])""",
    re.DOTALL,
)
# Words after which a name is defined in the module.
DEFINES = {"fn", "struct", "enum", "union", "trait", "type", "const", "static", "macro_rules"}


@dataclasses.dataclass
class Module:
    """A file or an inline block, one room of the tree."""

    name: str
    parent: "Module | None"
    files: list[pathlib.Path]
    children: dict[str, "Module"] = dataclasses.field(default_factory=dict)
    defined: set[str] = dataclasses.field(default_factory=set)
    # Local name -> path, of every `use`; the ones of globs.
    imported: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    globs: list[list[str]] = dataclasses.field(default_factory=list)
    # Every path of its code, with the file in which it stands.
    paths: list[tuple[pathlib.Path, list[str]]] = dataclasses.field(default_factory=list)


def tokens(text: str) -> list[str]:
    """The words and marks of Rust code; comments, strings, numbers and lifetimes are left out (a string becomes `""` with
    its text kept after it, because `path = "x.rs"` needs it)."""
    result = []
    at = 0
    while match := TOKEN.search(text, at):
        at = match.end()
        part = match[0]
        if part.startswith("//") or match["life"]:
            continue
        if part == "/*":
            depth = 1
            for edge in re.finditer(r"/\*|\*/", text[at:]):
                depth += 1 if edge[0] == "/*" else -1
                if depth == 0:
                    at += edge.end()
                    break
        elif match["hashes"] is not None:
            end = text.index('"' + match["hashes"], at)
            result.append('"' + text[at:end])
            at = end + 1 + len(match["hashes"])
        elif part[0] == '"' or part[:2] in ('b"', 'c"'):
            result.append('"' + part[part.index('"') + 1 : -1])
        elif match["word"] or match["colons"] or match["mark"]:
            result.append(part.removeprefix("r#"))
    return result


def closing(code: list[str], at: int) -> int:
    """Where the bracket that opens at `at` closes."""
    depth = 0
    for index in range(at, len(code)):
        if code[index] in ("(", "[", "{"):
            depth += 1
        elif code[index] in (")", "]", "}"):
            depth -= 1
            if depth == 0:
                return index
    return len(code)


def end_of_item(code: list[str], at: int) -> int:
    """The first token after the item that begins at `at`: after its `;` or its block."""
    while at < len(code):
        if code[at] == ";":
            return at + 1
        if code[at] == "{":
            return closing(code, at) + 1
        at = closing(code, at) + 1 if code[at] in ("(", "[") else at + 1
    return at


def is_for_tests(attribute: list[str]) -> bool:
    """Whether an attribute keeps what follows out of what ships: `test`, `cfg(test)`, `cfg(all(test, …))`."""
    if attribute[:1] == ["test"]:
        return True
    return attribute[:2] == ["cfg", "("] and "test" in attribute and "not" not in attribute


def use_tree(code: list[str], at: int, end: int, head: list[str]) -> list[tuple[list[str], str]]:
    """(path, local name) of each leaf of a `use`; the name of a glob is `*`."""
    leaves = []
    path = list(head)
    while at < end:
        if code[at] == "{":
            close = closing(code, at)
            start = at + 1
            for index in range(at + 1, close + 1):
                inner = code[start:index]
                whole = inner.count("{") == inner.count("}")
                if (code[index] == "," and whole) or index == close:
                    leaves += use_tree(code, start, index, path)
                    start = index + 1
            return leaves
        if code[at] == "as":
            return [(path, code[at + 1])]
        if code[at] == "*":
            return [(path, "*")]
        if code[at] != "::":
            path.append(code[at])
        at += 1
    if path and path[-1] == "self" and len(path) > 1:
        path = path[:-1]
    return [(path, path[-1])] if path and path != head else leaves


def read(module: Module, file: pathlib.Path, code: list[str], directory: pathlib.Path) -> None:
    """Fills a module from its code. `directory` is where the files of its children stand."""
    at, alternatives, is_test = 0, [], False
    while at < len(code):
        token = code[at]
        if token == "#":
            start = at + 1 + (code[at + 1] == "!")
            end = closing(code, start)
            attribute = code[start + 1 : end]
            is_test |= code[at + 1] != "!" and is_for_tests(attribute)
            named = [i for i in range(len(attribute) - 2) if attribute[i : i + 2] == ["path", "="]]
            alternatives += [attribute[i + 2][1:] for i in named]
            at = end + 1
            continue
        if is_test and token not in ("pub", "("):
            at = end_of_item(code, at)
            if at < len(code) and code[at] == ";":
                at += 1
            alternatives, is_test = [], False
            continue
        if token == "mod" and at + 2 < len(code) and code[at + 2] in (";", "{"):
            name = code[at + 1]
            child = module.children.setdefault(name, Module(name, module, []))
            if code[at + 2] == ";":
                base = file.parent if alternatives else directory
                candidates = [base / path for path in alternatives]
                candidates = candidates or [directory / f"{name}.rs", directory / name / "mod.rs"]
                for candidate in candidates:
                    if candidate.exists():
                        child.files.append(candidate)
                        below = candidate.parent if candidate.name == "mod.rs" or alternatives else directory / name
                        read(child, candidate, tokens(candidate.read_text()), below)
                at += 3
            else:
                close = closing(code, at + 2)
                child.files.append(file)
                read(child, file, code[at + 3 : close], directory / name)
                at = close + 1
            alternatives = []
            continue
        if token == "use" and (at == 0 or code[at - 1] in (";", "}", "{", "]", ")", "pub")):
            end = code.index(";", at)
            for path, name in use_tree(code, at + 1, end, []):
                module.paths.append((file, path))
                if name == "*":
                    module.globs.append(path)
                elif name != "_":
                    module.imported[name] = path
            at = end + 1
            continue
        if token in DEFINES and at + 1 < len(code):
            name = code[at + 1] if token != "macro_rules" else code[at + 2]
            name = code[at + 2] if name == "mut" else name
            module.defined.add(name)
        if token[0].isalpha() or token[0] == "_":
            is_head = at == 0 or code[at - 1] != "::"
            path = [token]
            while at + 2 < len(code) and code[at + 1] == "::" and re.match(r"\w", code[at + 2]):
                path.append(code[at + 2])
                at += 2
            if is_head and len(path) > 1:
                module.paths.append((file, path))
        if token not in ("pub", "(", ")", "crate", "super", "in", "self"):
            alternatives = []
        at += 1


def landing(root: Module, module: Module, path: list[str], seen: frozenset = frozenset()) -> Module | None:
    """The module in whose file a path ends; none where it leaves the crate."""
    if (id(module), tuple(path)) in seen:
        return None
    seen |= {(id(module), tuple(path))}
    at, rest = module, list(path)
    if rest[0] == "crate":
        at, rest = root, rest[1:]
    elif rest[0] == "self":
        rest = rest[1:]
    elif rest[0] == "super":
        while rest and rest[0] == "super":
            at, rest = at.parent or root, rest[1:]
    elif rest[0] not in at.children and rest[0] not in at.imported:
        return None
    while rest:
        name = rest[0]
        if name in at.children:
            at, rest = at.children[name], rest[1:]
        elif name in at.defined:
            return at
        elif name in at.imported and at.imported[name] != path:
            return landing(root, at, at.imported[name] + rest[1:], seen)
        else:
            for glob in at.globs:
                into = landing(root, at, glob, seen)
                if into and (name in into.defined or name in into.children or name in into.imported):
                    return landing(root, into, ["self", *rest], seen)
            return at
    return at


def encloses(outer: Module, inner: Module | None) -> bool:
    """Whether a module stands above another, or is it."""
    while inner is not None and inner is not outer:
        inner = inner.parent
    return inner is outer


def modules(root: Module):
    """The module and all below it."""
    yield root
    for child in root.children.values():
        yield from modules(child)


def imports(root: Module) -> dict[pathlib.Path, set[pathlib.Path]]:
    """File -> the files that it imports. A module with a file for each system stands by the first of them."""
    edges: dict[pathlib.Path, set[pathlib.Path]] = {}
    stands_for = {file: module.files[0] for module in modules(root) for file in module.files}
    for module in modules(root):
        for file, path in module.paths:
            end = landing(root, module, path)
            if end is not None and end.files:
                origin, target = stands_for[file], stands_for[end.files[0]]
                if origin != target and not encloses(end, module):
                    edges.setdefault(origin, set()).add(target)
    return edges


def circles(edges: dict[pathlib.Path, set[pathlib.Path]]) -> list[set[pathlib.Path]]:
    """The strongly connected components of more than one file (Tarjan, without recursion)."""
    index, low, stack, on_stack, found = {}, {}, [], set(), []
    for start in sorted(edges):
        work = [(start, iter(sorted(edges.get(start, ()))))] if start not in index else []
        while work:
            node, rest = work[-1]
            if node not in index:
                index[node] = low[node] = len(index)
                stack.append(node)
                on_stack.add(node)
            for target in rest:
                if target not in index:
                    work.append((target, iter(sorted(edges.get(target, ())))))
                    break
                if target in on_stack:
                    low[node] = min(low[node], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component = set()
                    while node not in component:
                        component.add(stack.pop())
                    on_stack -= component
                    if len(component) > 1:
                        found.append(component)
    return sorted(found, key=lambda circle: (-len(circle), min(circle)))


def shortest(edges: dict[pathlib.Path, set[pathlib.Path]], circle: set[pathlib.Path]) -> list[pathlib.Path]:
    """One shortest way round within a circle: where to begin to open it."""
    best: list[pathlib.Path] = []
    for start in sorted(circle):
        ways, reached = [[start]], set()
        while ways and (not best or len(ways[0]) < len(best)):
            way = ways.pop(0)
            for target in sorted(edges[way[-1]] & circle):
                if target == start:
                    best, ways = way, []
                    break
                if target not in reached:
                    reached.add(target)
                    ways.append([*way, target])
    return best


def crate_imports(source: pathlib.Path) -> dict[pathlib.Path, set[pathlib.Path]]:
    """The imports between the files of one crate, whose library and binary are roots of their own."""
    edges: dict[pathlib.Path, set[pathlib.Path]] = {}
    for name in ("lib.rs", "main.rs"):
        if (source / name).exists():
            root = Module("crate", None, [source / name])
            read(root, source / name, tokens((source / name).read_text()), source)
            for file, targets in imports(root).items():
                edges.setdefault(file, set()).update(targets)
    return edges


def check(root: pathlib.Path, allowed: list[str]) -> tuple[list[str], str]:
    """(what is wrong, one line about the whole) of the crates in `root`."""
    wrong, files, count, unused, passed = [], 0, 0, set(allowed), 0
    for source in sorted(root.glob("crates/*/src")):
        edges = crate_imports(source)
        files += len(edges.keys() | {target for targets in edges.values() for target in targets})
        count += sum(map(len, edges.values()))
        for circle in circles(edges):
            homes = [home for home in allowed if all(str(file.relative_to(root)).startswith(home) for file in circle)]
            if homes:
                unused.difference_update(homes)
                passed += 1
                continue
            way = [str(file.relative_to(source)) for file in shortest(edges, circle)]
            line = f"{source.parent.name}: a circle of {len(circle)} files, shortest: {' -> '.join([*way, way[0]])}"
            if len(circle) > len(way):
                line += f"; all: {', '.join(sorted(str(file.relative_to(source)) for file in circle))}"
            wrong.append(line + "; move what both need into a file below both")
    wrong += [f"no circle is left in {home}; take it out of ALLOWED in scripts/check-circles.py" for home in sorted(unused)]
    return wrong, f"{files} files, {count} imports, {passed or 'no'} circle{'s' * (passed != 1)} still allowed"


def main() -> int:
    wrong, summary = check(ROOT, ALLOWED)
    for line in wrong:
        print(f"circles: {line}", file=sys.stderr)
    if not wrong:
        print(f"circles: {summary}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
