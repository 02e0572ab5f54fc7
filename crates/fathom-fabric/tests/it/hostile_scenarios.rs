//! The shipped scenarios, changed by chance: each is refused in a line that names a place of the file, or is read and laid out.

use fathom_fabric::scenario::Scenario;
use proptest::prelude::*;
use std::path::Path;
use std::sync::LazyLock;

/// What stands where something else was.
const TOKENS: [&str; 24] = [
    "-1",
    "0",
    "99999999999999999999",
    "4294967295",
    "1e999",
    "nan",
    "\"0\"",
    "\"18446744073709551615ns\"",
    "\"999999999h\"",
    "\"-1us\"",
    "\"101%\"",
    "\"\"",
    "\"\\u001b[31m\"",
    "\u{2028}",
    "\u{1f600}",
    "[]",
    "[[[[[[[[[[[[",
    "{}",
    "true",
    "2025-03-19T22:49:12Z",
    "=",
    "\n",
    "[[host]]\n",
    "\"10.0.0.1\"",
];

static SHIPPED: LazyLock<Vec<Vec<char>>> = LazyLock::new(|| {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut paths: Vec<_> = std::fs::read_dir(directory)
        .expect("it is shipped")
        .map(|entry| entry.expect("listed").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    paths.sort_unstable();
    let texts = paths.iter().map(|path| std::fs::read_to_string(path).expect("text").chars().collect());
    texts.collect()
});

/// Where the words of a text are: names, numbers, quoted values.
fn words(text: &[char]) -> Vec<(usize, usize)> {
    let is_part = |c: &char| c.is_ascii_alphanumeric() || "\"-_.%".contains(*c);
    let (mut found, mut at) = (Vec::new(), 0);
    for word in text.split(|c| !is_part(c)) {
        if !word.is_empty() {
            found.push((at, at + word.len()));
        }
        at += word.len() + 1;
    }
    found
}

#[derive(Debug, Clone)]
enum Change {
    Word(usize, usize),
    Insert(usize, usize),
    Cut(usize, usize),
    Double(usize, usize),
}

fn change() -> impl Strategy<Value = Change> {
    let token = 0..TOKENS.len();
    prop_oneof![
        4 => (any::<usize>(), token.clone()).prop_map(|(at, token)| Change::Word(at, token)),
        1 => (any::<usize>(), token).prop_map(|(at, token)| Change::Insert(at, token)),
        1 => (any::<usize>(), 1..200_usize).prop_map(|(at, length)| Change::Cut(at, length)),
        1 => (any::<usize>(), 1..200_usize).prop_map(|(at, length)| Change::Double(at, length)),
    ]
}

fn changed(mut text: Vec<char>, changes: &[Change]) -> String {
    for change in changes {
        let place = |at: usize| at % (text.len() + 1);
        match *change {
            Change::Word(at, token) => {
                let words = words(&text);
                if let Some(&(from, to)) = words.get(at % words.len().max(1)) {
                    text.splice(from..to, TOKENS[token].chars());
                }
            }
            Change::Insert(at, token) => {
                let at = place(at);
                text.splice(at..at, TOKENS[token].chars());
            }
            Change::Cut(at, length) => {
                let at = place(at);
                text.drain(at..(at + length).min(text.len()));
            }
            Change::Double(at, length) => {
                let at = place(at);
                let again = text[at..(at + length).min(text.len())].to_vec();
                text.splice(at..at, again);
            }
        }
    }
    text.into_iter().collect()
}

/// The laws, in so many cases.
macro_rules! laws {
    ($cases:expr) => {
        proptest! {
            #![proptest_config(ProptestConfig { cases: $cases, failure_persistence: None, ..ProptestConfig::default() })]

            #[test]
            fn mutated_scenario_parses_or_is_one_line_error(
                which in any::<prop::sample::Index>(),
                changes in prop::collection::vec(change(), 1..5),
            ) {
                let text = changed(which.get(&SHIPPED[..]).clone(), &changes);
                match Scenario::parse(&text, "x.toml") {
                    Ok(scenario) => {
                        let plan = scenario.plan();
                        prop_assert_eq!(plan.hosts.len(), scenario.hosts().len());
                        prop_assert!(plan.legs.len() >= scenario.paths().len());
                        for path in scenario.paths() {
                            let mean = path.round_trip_mean_ns();
                            prop_assert!(mean.is_finite() && mean >= 0.0, "{mean}: {text}");
                        }
                    }
                    Err(error) => {
                        let told = error.to_string();
                        prop_assert!(!told.contains('\n'), "{told:?}");
                        let line = text.split('\n').nth(error.line - 1);
                        let longest = line.map(|line| line.chars().count() + 1);
                        prop_assert!(longest.is_some_and(|longest| (1..=longest).contains(&error.column)), "{told:?}: {text}");
                    }
                }
            }
        }
    };
}

laws!(30);

mod acceptance {
    use super::*;

    laws!(256);
}
