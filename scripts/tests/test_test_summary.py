"""The closing lines of `make test` and `make acceptance`."""

import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[1] / "test-summary.py"


class TestSummary(unittest.TestCase):
    def summary(self, what, *cases):
        with tempfile.TemporaryDirectory() as directory:
            junit = Path(directory, "junit.xml")
            junit.write_text(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>")
            done = subprocess.run([SCRIPT, what, junit], capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    def test_slow_test_is_a_defect(self):
        cases = ('<testcase classname="a" name="quick" time="0.5"/>', '<testcase classname="a" name="slow" time="5.1"/>')
        self.assertEqual(
            self.summary("slowest", *cases),
            ["The 2 slowest of 2 tests:", "    5.1 s  a::slow  DEFECT: above 5 s", "    0.5 s  a::quick"],
        )

    def test_slow_tests_beyond_ten_are_counted(self):
        cases = [f'<testcase classname="a" name="t{n}" time="9"/>' for n in range(12)]
        lines = self.summary("slowest", *cases)
        self.assertEqual((len(lines), lines[-1].strip()), (12, "and 2 more DEFECTS above 5 s"))

    def test_rates_are_listed_by_test(self):
        case = '<testcase classname="a" name="b" time="1"><system-out>x\nRATE 4 of 5 (bound 4)\n</system-out></testcase>'
        self.assertEqual(self.summary("rates", case), ["1 rates:", "a::b: 4 of 5 (bound 4)"])


if __name__ == "__main__":
    unittest.main()
