"""scripts/mutants.toml: each mutant changes something that is there, in one place, and names tests that are."""

import pathlib
import tomllib
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MUTANTS = tomllib.loads((ROOT / "scripts" / "mutants.toml").read_text())["mutant"]


class Mutants(unittest.TestCase):
    def test_each_breaks_one_place(self):
        for mutant in MUTANTS:
            with self.subTest(mutant["name"]):
                source = (ROOT / "python" / "src" / mutant["file"]).read_text()
                self.assertEqual(source.count(mutant["old"]), 1)
                self.assertNotEqual(mutant["old"], mutant["new"])

    def test_each_names_tests_that_are_there(self):
        for mutant in MUTANTS:
            for test in mutant["tests"]:
                with self.subTest(mutant["name"], test=test):
                    file, _, function = test.partition("::")
                    text = (ROOT / "python" / file).read_text()
                    self.assertIn(f"def {function.partition('[')[0] or 'test_'}", text)

    def test_names_are_unique(self):
        names = [mutant["name"] for mutant in MUTANTS]
        self.assertEqual(len(names), len(set(names)))


if __name__ == "__main__":
    unittest.main()
