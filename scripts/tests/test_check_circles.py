"""scripts/check-circles.py on small trees, whose imports are written down beside them."""

import importlib.util
import pathlib
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent.parent / "check-circles.py"
spec = importlib.util.spec_from_file_location("check_circles", SCRIPT)
check_circles = importlib.util.module_from_spec(spec)
sys.modules["check_circles"] = check_circles
spec.loader.exec_module(check_circles)


class Tree(unittest.TestCase):
    def setUp(self):
        home = tempfile.TemporaryDirectory()
        self.addCleanup(home.cleanup)
        self.root = pathlib.Path(home.name)
        self.source = self.root / "crates/x/src"

    def write(self, **files):
        """Files by name: `a` is a.rs, `a__b` is a/b.rs."""
        for name, text in files.items():
            path = self.source / (name.replace("__", "/") + ".rs")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def imports(self):
        edges = check_circles.crate_imports(self.source)
        name = lambda file: str(file.relative_to(self.source))
        return sorted(f"{name(a)} -> {name(b)}" for a, targets in edges.items() for b in targets)

    def wrong(self, allowed=()):
        return check_circles.check(self.root, list(allowed))[0]


class Imports(Tree):
    def test_only_uses_and_paths_are_imports(self):
        self.write(
            lib="mod a; mod b; mod c; mod d;",
            a="use crate::b::{X, c::Y as Z};",
            b="pub struct X; pub mod c { pub struct Y; }",
            c="fn f() -> super::d::T { crate::b::X }",
            d="pub struct T; // use crate::a::A;\n/* use /* crate:: */ crate::a::A; */ const S: &str = \"crate::a::A\";",
        )
        self.assertEqual(self.imports(), ["a.rs -> b.rs", "c.rs -> b.rs", "c.rs -> d.rs"])

    def test_path_through_imported_module_is_followed(self):
        self.write(lib="mod a; mod b;", a="use crate::b; fn f() { b::inner::g() }", b="pub mod inner;", b__inner="pub fn g() {}")
        self.assertEqual(self.imports(), ["a.rs -> b.rs", "a.rs -> b/inner.rs"])

    def test_reexport_leads_to_defining_file(self):
        self.write(
            lib="mod a; mod door;",
            a="use crate::door::{Thing, Kind::Round};",
            door="mod room; mod other; pub use room::Thing; pub use other::*;",
            door__room="pub struct Thing;",
            door__other="pub enum Kind { Round }",
        )
        self.assertEqual(
            self.imports(),
            ["a.rs -> door/other.rs", "a.rs -> door/room.rs", "door.rs -> door/other.rs", "door.rs -> door/room.rs"],
        )

    def test_sibling_import_through_parent_is_found(self):
        self.write(
            lib="mod door;",
            door="mod a; mod b; use a::A; use b::B;",
            door__a="use super::B; pub struct A;",
            door__b="pub struct B;",
        )
        self.assertEqual(self.imports(), ["door.rs -> door/a.rs", "door.rs -> door/b.rs", "door/a.rs -> door/b.rs"])

    def test_enclosing_module_is_not_an_import(self):
        self.write(
            lib="mod a; pub struct Error;",
            a="mod b; use b::B; pub struct A; use crate::Error;",
            a__b="use super::A; use super::super::Error; pub struct B;",
        )
        self.assertEqual(self.imports(), ["a.rs -> a/b.rs"])

    def test_tests_do_not_count(self):
        self.write(
            lib="mod a; mod b; #[cfg(test)] mod tests;",
            a="#[cfg(test)]\nmod tests { use crate::b::B; }\n#[test]\nfn t() { crate::b::B; }\n#[cfg(test)] use crate::b::C;",
            b="use crate::a::A; #[cfg(not(test))] use crate::a::D;",
            tests="use crate::a::A;",
        )
        self.assertEqual(self.imports(), ["b.rs -> a.rs"])

    def test_platform_variants_count_as_one_module(self):
        self.write(
            lib="mod a; mod b;",
            a='#[cfg_attr(unix, path = "a_unix.rs")]\n#[cfg_attr(not(unix), path = "a_none.rs")]\nmod system; pub use system::f;',
            a_unix="use crate::b::B; pub fn f() {}",
            a_none="pub fn f() {}",
            b="pub struct B; use crate::a::f;",
        )
        self.assertEqual(self.imports(), ["a.rs -> a_unix.rs", "a_unix.rs -> b.rs", "b.rs -> a_unix.rs"])

    def test_lifetimes_characters_and_raw_strings_hide_nothing(self):
        self.write(
            lib="mod a; mod b;",
            a="""fn f<'a>(c: &'a char) { if *c == '"' || *c == '\\'' { crate::b::g() } let s = r#"a " crate::b::"#; }""",
            b="pub fn g() {}",
        )
        self.assertEqual(self.imports(), ["a.rs -> b.rs"])


class Circles(Tree):
    def test_circle_report_shows_shortest_path(self):
        self.write(
            lib="mod a; mod b; mod c; mod d;",
            a="use crate::b::B; pub struct A;",
            b="use crate::c::C; pub struct B;",
            c="use crate::a::A; pub struct C;",
            d="use crate::a::A;",
        )
        (line,) = self.wrong()
        self.assertIn("x: a circle of 3 files, shortest: a.rs -> b.rs -> c.rs -> a.rs", line)

    def test_circle_through_parent_is_found(self):
        self.write(
            lib="mod a; mod b;",
            a="mod room; use room::R; pub struct A;",
            a__room="use crate::b::B; pub struct R;",
            b="use crate::a::A; pub struct B;",
        )
        (line,) = self.wrong()
        self.assertIn("a circle of 3 files", line)

    def test_allowed_circle_must_be_listed_and_needed(self):
        circle = dict(a="use crate::b::B; pub struct A;", b="use crate::a::A; pub struct B;")
        self.write(lib="mod f; mod g;", f="mod a; mod b;", g="", f__a=circle["a"].replace("crate", "crate::f"))
        self.write(f__b=circle["b"].replace("crate", "crate::f"))
        self.assertEqual(self.wrong(["crates/x/src/f/"]), [])
        self.assertEqual(len(self.wrong(["crates/x/src/g/"])), 2)
        self.write(f__b="pub struct B;")
        (line,) = self.wrong(["crates/x/src/f/"])
        self.assertIn("no circle is left in crates/x/src/f/", line)


if __name__ == "__main__":
    unittest.main()
