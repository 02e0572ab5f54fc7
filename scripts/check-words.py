#!/usr/bin/env python3
"""No text that users read has the words that scripts/words.toml lists.

What users read: README.md and other *.md at the top, docs/, infra/README.md; the string literals of both halves; the text of
`--help` (in Rust the `///` lines of files that define options, in Python the docstrings of commands); the page's templates.
What they do not: comments, other documentation of code, tests, decisions (docs/decisions/).

In a string {…} stands for what is filled in: in Rust as it is written, in Python the source of the expression.
"""

import ast
import pathlib
import re
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent

RUST = re.compile(
    r"""(?P<doc>///[^\n]*)|//[^\n]*|/\*.*?\*/|b?r(?P<hashes>\#*)"(?P<raw>.*?)"(?P=hashes)|b?"(?P<text>(?:[^"\\]|\\.)*)"|'(?:[^'\\]|\\.)'""",
    re.DOTALL,
)
OPTIONS = re.compile(r"derive\([^)]*\b(?:Args|Parser|Subcommand|ValueEnum)\b")
COMMANDS = re.compile(r"(?:^|_)(?:cli|command)$")


def rust_texts(source):
    """(line, text) of the strings of a file, and of its `///` lines where it defines options; without its tests."""
    source = re.split(r"^#\[cfg\(test\)\]\nmod \w+ \{", source, maxsplit=1, flags=re.MULTILINE)[0]
    options = OPTIONS.search(source) is not None
    for match in RUST.finditer(source):
        text = match["text"] if match["text"] is not None else match["raw"]
        if text is not None:
            text = re.sub(r"\\\n\s*", "", text)
        elif options and match["doc"]:
            text = match["doc"].lstrip("/ ")
        if text:
            yield source.count("\n", 0, match.start()) + 1, text


def python_texts(source, command):
    """(line, text) of the strings of a file; of docstrings only those of commands, which are their help."""
    tree = ast.parse(source)
    skipped = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for one in body if isinstance(body, list) else []:
            if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant):
                if not (command and isinstance(node, ast.FunctionDef)):
                    skipped.add(one.value)
        if isinstance(node, ast.JoinedStr):
            skipped.update(part for part in node.values if isinstance(part, ast.Constant))
            yield node.lineno, "".join(map(filled, node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in skipped:
            yield node.lineno, node.value


def filled(part):
    """A part of an f-string; what is filled in as {source}."""
    if isinstance(part, ast.Constant):
        return str(part.value)
    form = "" if part.format_spec is None else ":" + "".join(map(filled, part.format_spec.values))
    # Braces within are none of a placeholder.
    return "{" + (ast.unparse(part.value) + form).replace("{", "(").replace("}", ")") + "}"


def texts(root):
    """(file, line, text, whether it is code's) of all that users read."""
    documents = [*root.glob("*.md"), *(root / "docs").glob("*.md"), root / "infra/README.md"]
    documents += (root / "python/src").rglob("*.html")
    for path in sorted(path for path in documents if path.is_file()):
        for line, text in enumerate(path.read_text().splitlines(), 1):
            yield path, line, text, False
    for path in sorted((root / "crates").glob("*/src/**/*.rs")):
        if "tests" not in path.parts and not path.stem.endswith("tests"):
            for line, text in rust_texts(path.read_text()):
                yield path, line, text, True
    for path in sorted((root / "python/src").rglob("*.py")):
        for line, text in python_texts(path.read_text(), COMMANDS.search(path.stem) is not None):
            yield path, line, text, True


def findings(root, words, allow):
    """What is wrong, a line each; and the entries of `allow` that stand nowhere."""
    # Of code the names of constants matter, which are in capitals.
    patterns = [(re.compile(w["find"], 0 if w.get("in") == "code" else re.IGNORECASE), w) for w in words]
    wrong, used = [], set()
    for path, line, text, code in texts(root):
        for kept in allow:
            if kept in text:
                used.add(kept)
                text = text.replace(kept, "")
        for pattern, word in patterns:
            if (code or word.get("in") != "code") and (found := pattern.search(text)):
                where = f"{path.relative_to(root)}:{line}"
                wrong.append(f"{where}: `{found[0]}`: write {word['instead']} ({word['why']})")
    return wrong, [kept for kept in allow if kept not in used]


def main():
    listed = tomllib.loads((ROOT / "scripts/words.toml").read_text())
    wrong, unused = findings(ROOT, listed["word"], listed["allow"])
    wrong += [f"scripts/words.toml: `{kept}` stands in no text: remove it" for kept in unused]
    print("\n".join(wrong), file=sys.stderr, end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
