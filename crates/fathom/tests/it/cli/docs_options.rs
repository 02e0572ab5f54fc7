//! What README and docs/ write on our command line exists: each option after a `fathom COMMAND`, and each of those that
//! docs/peers.md names beside another tool's, is in that command's `--help`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The commands of the Rust half, as deep as each goes. The Python half has its own options.
const COMMANDS: [(&str, usize); 5] =
    [("echo", 1), ("probe", 1), ("limits", 1), ("fabric", 2), ("recording", 2)];

/// A command of ours as a page writes it, and the options it is written with.
#[derive(Debug, PartialEq, Eq)]
struct Written {
    command: Vec<String>,
    options: Vec<String>,
}

/// The options of each command, asked once.
#[derive(Default)]
struct Help(BTreeMap<Vec<String>, BTreeSet<String>>);

impl Help {
    fn knows(&mut self, command: &[String], option: &str) -> bool {
        let options = self.0.entry(command.to_vec()).or_insert_with(|| {
            let help = Command::new(env!("CARGO_BIN_EXE_fathom")).args(command).arg("--help").output();
            let help = help.expect("fathom runs");
            assert!(help.status.success(), "fathom {} --help", command.join(" "));
            declared(&String::from_utf8_lossy(&help.stdout))
        });
        options.contains(option)
    }
}

/// The options that a help text declares: a line each, at its beginning (`-l, --listen <ADDR>`); others that the
/// explanations mention stand further in.
fn declared(help: &str) -> BTreeSet<String> {
    let lines = help.lines().filter(|line| {
        let indent = line.len() - line.trim_start().len();
        (2..=6).contains(&indent) && line.trim_start().starts_with('-')
    });
    lines.filter_map(|line| options(line).into_iter().next()).collect()
}

/// The `--options` among words, without their values and what encloses them.
fn options(text: &str) -> Vec<String> {
    let words = text.split([' ', '=', '[', ']', '(', ')', ',', ';', '`', '|']);
    let options =
        words.filter(|w| w.strip_prefix("--").is_some_and(|name| name.starts_with(char::is_alphabetic)));
    options.map(str::to_owned).collect()
}

/// The commands of ours in a line of shell, up to its comment.
fn commands(line: &str) -> Vec<Written> {
    let shell = line.split(" #").next().unwrap_or_default();
    let ours = shell.split("fathom ").skip(1).map(|ours| ours.split(['&', ';']).next().unwrap_or_default());
    let written = ours.filter_map(|ours| {
        let words: Vec<&str> = ours.split_whitespace().collect();
        let (_, depth) = COMMANDS.iter().find(|(name, _)| words.first() == Some(name))?;
        // A search takes a host, a check has options of its own.
        let depth = if words.starts_with(&["limits", "check"]) { &2 } else { depth };
        let command = words.iter().take(*depth).map(|w| (*w).to_owned()).collect();
        Some(Written { command, options: options(ours) })
    });
    written.collect()
}

/// The code spans of a line of Markdown.
fn spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// What a page writes of ours: in code spans and in indented blocks that begin with `fathom`.
fn written(page: &str) -> Vec<Written> {
    let indented = page.lines().filter(|line| line.starts_with("    ")).map(str::trim_start);
    let blocks = indented.map(|line| line.split_once("$ ").map_or(line, |(_, typed)| typed.trim_start()));
    // A span may go on in the next line of its paragraph.
    let paragraphs = page.split("\n\n").map(|paragraph| paragraph.replace('\n', " "));
    let code: Vec<String> =
        paragraphs.flat_map(|p| spans(&p).map(str::to_owned).collect::<Vec<_>>()).collect();
    let all = blocks.chain(code.iter().map(String::as_str)).filter(|code| code.starts_with("fathom "));
    all.flat_map(commands).collect()
}

/// The options in the column "here" of a page's tables, the second of theirs.
fn here(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    for table in page.split("\n\n") {
        // A bar within a cell is written `\|`.
        let mut cells = table.lines().filter(|line| line.starts_with('|')).map(|row| row.replace("\\|", " "));
        let second = |row: &str| row.split('|').nth(2).map(|cell| cell.trim().to_owned()).unwrap_or_default();
        if cells.next().is_some_and(|header| second(&header) == "here") {
            for cell in cells.map(|row| second(&row)) {
                found.extend(spans(&cell).filter(|span| span.starts_with("--")).flat_map(options));
            }
        }
    }
    found
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn documented_fathom_options_exist() {
    let docs = std::fs::read_dir(root().join("docs")).expect("docs/");
    let mut pages: Vec<PathBuf> = docs.map(|entry| entry.expect("an entry").path()).collect();
    pages.retain(|path| path.extension().is_some_and(|e| e == "md"));
    pages.push(root().join("README.md"));
    let (mut help, mut checked, mut unknown) = (Help::default(), 0, Vec::new());
    for page in pages {
        for Written { command, options } in written(&read(&page)) {
            for option in options {
                checked += 1;
                if !help.knows(&command, &option) {
                    unknown.push(format!("{}: fathom {} {option}", page.display(), command.join(" ")));
                }
            }
        }
    }
    assert!(unknown.is_empty(), "not in --help:\n{}", unknown.join("\n"));
    assert!(checked > 40, "the pages write more of them than {checked}");
}

#[test]
fn every_option_beside_another_tools_exists() {
    let page = read(&root().join("docs/peers.md"));
    let (mut help, named) = (Help::default(), here(&page));
    let [probe, echo] = ["probe", "echo"].map(|command| vec![command.to_owned()]);
    for option in &named {
        assert!(help.knows(&probe, option) || help.knows(&echo, option), "docs/peers.md: {option}");
    }
    assert!(named.len() > 80, "the tables name more of them than {}", named.len());
}

#[test]
fn options_are_found_where_they_are_written() {
    let page = "Say `fathom echo\n--listen 7`, or `fathom recording export DIR --format=csv`; `psping --never`.\n\n\
                \x20   here$ fathom fabric exec h -- fathom probe x --for 60s &   # not --this\n\n\
                | theirs | here |\n|---|---|\n| `--a` | `--udp`, `--load RATE\\|max` |\n\n\
                | written by | read by |\n|---|---|\n| us | `--full-log` |\n";
    let of = |command: &str, options: &[&str]| Written {
        command: command.split(' ').map(str::to_owned).collect(),
        options: options.iter().map(|o| (*o).to_owned()).collect(),
    };
    let expected = [
        of("fabric exec", &[]),
        of("probe", &["--for"]),
        of("echo", &["--listen"]),
        of("recording export", &["--format"]),
    ];
    assert_eq!(written(page), expected);
    assert_eq!(here(page), ["--udp", "--load"]);
    let help =
        "Options:\n  -l, --listen <ADDR>  As `fathom x --no`\n      --tcp\n          --prose of another\n";
    assert_eq!(declared(help), BTreeSet::from(["--listen".to_owned(), "--tcp".to_owned()]));
}
