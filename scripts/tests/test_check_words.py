"""scripts/check-words.py on small trees: what users read is looked at, and nothing else; and each entry of words.toml finds
what it is for.
"""

import importlib.util
import pathlib
import sys
import tempfile
import tomllib
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent.parent / "check-words.py"
spec = importlib.util.spec_from_file_location("check_words", SCRIPT)
check_words = importlib.util.module_from_spec(spec)
sys.modules["check_words"] = check_words
spec.loader.exec_module(check_words)

LISTED = tomllib.loads((SCRIPT.parent / "words.toml").read_text())

# A sentence that each entry finds, and one that it leaves alone, in the order of the list.
CASES = [
    ('format!("{n} samples")', 'format!("{} of {MOST} samples, {ratio:.2} times", count(n, "row"))'),
    ("1 samples had no echo", "1 sample, 0.1 samples, 11 samples"),
    ("2.26 times lower", "56 % lower, 3 times"),
    ("a loss is told at the end", "it is told apart from the next"),
    ("or say --name OTHER", "or use --name OTHER"),
    ("three packets came not back", "three packets did not come back"),
    ("for new connections neither", "neither of them, nor both"),
    ("the address is another than before", "another path than this"),
    ("as much as goes", "as much as the path carries"),
    ("longer ways belong into ssh", "longer ways belong in ssh"),
    ("by the testimony of the peer", "by the report of the peer"),
]


class Words(unittest.TestCase):
    def setUp(self):
        home = tempfile.TemporaryDirectory()
        self.addCleanup(home.cleanup)
        self.root = pathlib.Path(home.name)

    def found(self, path, text, words=({"find": "bad", "instead": "good", "why": "-"},), allow=()):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return check_words.findings(self.root, words, allow)

    def lines(self, path, text):
        return [int(one.split(":")[1]) for one in self.found(path, text)[0]]

    def test_each_entry_finds_what_it_is_for(self):
        self.assertEqual(len(CASES), len(LISTED["word"]))
        for (wrong, right), word in zip(CASES, LISTED["word"], strict=True):
            for text, count in ((wrong, 1), (right, 0)):
                source = text if text.startswith("format!") else f'"{text}"'
                found = self.found("crates/x/src/lib.rs", f"fn f() {{ {source} }}\n", [word])[0]
                self.assertEqual(len(found), count, (word["find"], text, found))

    def test_a_plural_is_looked_for_in_messages_alone(self):
        for path in ("README.md", "docs/a.md"):
            self.assertEqual(self.found(path, "write {n} samples\n", LISTED["word"])[0], [])
        wrong = 'def f(n):\n    return f"{len(n):,} samples"\n'
        self.assertEqual(len(self.found("python/src/a.py", wrong, LISTED["word"])[0]), 1)
        right = 'def f(n):\n    return f"{count(len(n), \'sample\')}"\n'
        self.assertEqual(self.found("python/src/a.py", right, LISTED["word"])[0], [])

    def test_documents_are_read_and_decisions_are_not(self):
        self.assertEqual(self.lines("docs/a.md", "good\nBad\n"), [2])
        (self.root / "docs/a.md").unlink()
        self.assertEqual(self.lines("docs/decisions/a.md", "bad\n"), [])

    def test_only_rust_strings_outside_tests_are_read(self):
        source = (
            "// bad\n//! bad\n/// bad\nfn f() -> char {\n    let _ = \"a \\\"bad\\\"\";\n"
            "    let _ = r#\"a\nbad\"#; '\"'\n}\n/* bad */\n"
            '#[cfg(test)]\nmod tests {\n    const A: &str = "bad";\n}\n'
        )
        self.assertEqual(self.lines("crates/x/src/a.rs", source), [5, 6])
        (self.root / "crates/x/src/a.rs").unlink()
        self.assertEqual(self.lines("crates/x/src/tests/a.rs", 'const A: &str = "bad";'), [])

    def test_help_is_read_where_options_are_defined(self):
        source = "#[derive(Debug, clap::Args)]\nstruct Args {\n    /// A bad one.\n    a: u8,\n}\n"
        self.assertEqual(self.lines("crates/x/src/a.rs", source), [3])

    def test_python_strings_and_command_docstrings_are_read(self):
        source = '"""bad"""\n\n\ndef f(a):\n    """Bad."""\n    # bad\n    return f"{a!r:>8} bad"\n'
        self.assertEqual(self.lines("python/src/a.py", source), [7])
        (self.root / "python/src/a.py").unlink()
        self.assertEqual(self.lines("python/src/report_command.py", source), [5, 7])

    def test_what_is_allowed_passes_and_must_be_there(self):
        self.assertEqual(self.found("README.md", "so bad\n", allow=["so bad"]), ([], []))
        self.assertEqual(self.found("README.md", "good\n", allow=["so bad"]), ([], ["so bad"]))


if __name__ == "__main__":
    unittest.main()
