//! How a story is laid out for people: several made one, and each line with its evidence on a page of some width.

use super::{Confidence, Line};
use crate::text::cleaned;
use jiff::Timestamp;
use std::collections::VecDeque;

/// A recording's label and its story.
pub type Labelled = (String, VecDeque<Line>);

/// One story of several, by time; each keeps its own order, also where its wall clock was set back.
pub fn merged(mut stories: Vec<Labelled>) -> Vec<(String, Line)> {
    let mut all = Vec::new();
    loop {
        let next =
            stories.iter_mut().filter(|(_, lines)| !lines.is_empty()).min_by_key(|(_, lines)| lines[0].at);
        let Some((label, lines)) = next else { return all };
        all.extend(lines.pop_front().map(|line| (label.clone(), line)));
    }
}

/// How lines are laid out.
#[derive(Debug)]
pub struct Page {
    /// Columns of the terminal; `None`: no terminal, no wrapping.
    pub width: Option<usize>,
    /// Whether lines are coloured.
    pub coloured: bool,
    /// Whether lines name their recording.
    pub labels: bool,
    /// Whether the day is part of the time.
    pub days: bool,
}

impl Page {
    /// A line with its evidence below it.
    pub fn render(&self, label: &str, line: &Line) -> String {
        let label = if self.labels { format!("[{label}] ") } else { String::new() };
        let sure = match (line.verdict, line.confidence) {
            (None, Confidence::High) => "",
            (_, Confidence::High) => " (confidence: high)",
            (_, Confidence::Medium) => " (confidence: medium)",
            (_, Confidence::Low) => " (confidence: low)",
            (_, Confidence::None) => " (confidence: none)",
        };
        let time = self.time(line.at);
        let indent = time.chars().count() + 1;
        let first = self.wrap(&format!("{label}{}{sure}", line.statement), indent);
        let mut out = match (self.coloured, line.confidence) {
            (false, _) => format!("{time} {first}"),
            (true, Confidence::None) => format!("\x1b[2m{time}\x1b[0m \x1b[33m{first}\x1b[0m"),
            (true, _) if line.verdict.is_some() => format!("\x1b[2m{time}\x1b[0m \x1b[1m{first}\x1b[0m"),
            (true, _) => format!("\x1b[2m{time}\x1b[0m {first}"),
        };
        // What the sentence says already is not said again.
        for fact in line.evidence.iter().filter(|fact| !line.statement.contains(fact.as_str())) {
            let fact = self.wrap(fact, indent + 2);
            out.extend(["\n", &" ".repeat(indent), "- ", &fact]);
        }
        out
    }

    fn time(&self, at: Timestamp) -> String {
        at.strftime(if self.days { "%F %H:%M:%S" } else { "%H:%M:%S" }).to_string()
    }

    /// Wraps a text whose first line begins at column `indent` too.
    fn wrap(&self, text: &str, indent: usize) -> String {
        let room = self.width.map_or(usize::MAX, |width| width.saturating_sub(indent + 1).max(20));
        let (mut out, mut column) = (String::new(), 0);
        for word in text.split_whitespace() {
            let length = word.chars().count();
            if column > 0 && column + 1 + length > room {
                out.push('\n');
                out.push_str(&" ".repeat(indent));
                column = 0;
            } else if column > 0 {
                out.push(' ');
                column += 1;
            }
            out.push_str(&cleaned(word));
            column += length;
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(at: &str, statement: &str) -> Line {
        let (connection, cause, verdict, evidence) = (None, None, None, vec!["a fact".to_owned()]);
        let at = at.parse().expect("a time");
        Line {
            at,
            connection,
            statement: statement.into(),
            evidence,
            cause,
            verdict,
            confidence: Confidence::High,
        }
    }

    #[test]
    fn page_wraps_and_replaces_control_characters() {
        let page = Page { width: Some(40), coloured: false, labels: true, days: false };
        let text =
            page.render("z", &line("2026-11-21T10:00:00Z", "a sentence that is longer\x1b[31m than a line"));
        let expected =
            "10:00:00 [z] a sentence that is\n         longer\u{FFFD}[31m than a line\n         - a fact";
        assert_eq!(text, expected);
    }

    #[test]
    fn several_stories_become_one_by_time() {
        let story = |label: &str, times: &[&str]| {
            (label.to_owned(), times.iter().map(|at| line(&format!("2026-11-21T{at}Z"), at)).collect())
        };
        // The clock of `a` was set back: its order stays.
        let all = merged(vec![
            story("a", &["10:00:00", "10:00:09", "10:00:03"]),
            story("b", &["10:00:01", "10:00:10"]),
        ]);
        let order: Vec<&str> = all.iter().map(|(_, line)| line.statement.as_str()).collect();
        assert_eq!(order, ["10:00:00", "10:00:01", "10:00:09", "10:00:03", "10:00:10"]);
    }
}
