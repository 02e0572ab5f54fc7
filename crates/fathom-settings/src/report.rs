//! What was found, in words and as JSON.

use crate::Report;
use crate::judge::Judgement;
use crate::unit::exactly;
use fathom_core::limits::Limit;
use fathom_core::text::cleaned;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// For people; `loses` and `holds` are coloured where that is wanted. `file` is printed as it is: clean it, if a terminal might obey it.
/// Faults are not in it: each is a [`crate::Fault`] to print.
pub fn text(file: &str, report: &Report, coloured: bool) -> String {
    let mut out = String::new();
    for judgement in &report.judgements {
        let Judgement { at, setting, value, library, .. } = judgement;
        let value = match judgement.default.as_slice() {
            [] => format!("{setting}: {value}"),
            _ => format!("{setting}: {value}, the default of {library}"),
        };
        let verdict = match (judgement.loses, coloured) {
            (true, true) => "\x1b[31mloses\x1b[0m",
            (false, true) => "\x1b[32mholds\x1b[0m",
            (true, false) => "loses",
            (false, false) => "holds",
        };
        let limit = in_words(judgement.limit);
        let against = exactly(judgement.limit_ns);
        let _ = writeln!(out, "{file}:{}: {value}", at.line);
        let _ = writeln!(out, "  {verdict} against the {limit} of {against}: {}", judgement.why);
        if !judgement.loses {
            continue;
        }
        for source in &judgement.default {
            let _ = writeln!(out, "  default from: {source}");
        }
        if let Some(version) = judgement.holds_since {
            let _ = writeln!(out, "  holds since {library} {version} (--library-version)");
        }
        for line in &judgement.write {
            let how = if line.instead { "write instead" } else { "add" };
            let column = if line.within { format!(", column {}", line.at.column) } else { String::new() };
            // What stands before the last part of a name is the file's.
            let _ = writeln!(out, "  {how} in line {}{column}: {}", line.at.line, cleaned(&line.text));
            if let Some(since) = line.since {
                let _ = writeln!(
                    out,
                    "  {library} has that setting since {since} (--library-version says which one you have)"
                );
            }
        }
        for words in judgement.otherwise.iter().chain(&judgement.cost) {
            let _ = writeln!(out, "  {words}");
        }
    }
    for note in &report.notes {
        let _ = writeln!(out, "{file}: note: {note}");
    }
    out
}

fn in_words(limit: Limit) -> &'static str {
    match limit {
        Limit::Idle => "idle limit",
        Limit::Age => "age limit",
    }
}

/// One object, as docs/limits-check.md tells.
pub fn json(file: &str, report: &Report) -> Value {
    let judgements = report.judgements.iter().map(|judgement| {
        let write = judgement.write.iter().map(|line| {
            json!({"line": line.at.line, "column": line.at.column, "instead": line.instead, "within": line.within, "since": line.since.map(|version| version.to_string()), "text": line.text})
        });
        json!({
            "line": judgement.at.line,
            "column": judgement.at.column,
            "limit": judgement.limit,
            "limit_ns": judgement.limit_ns,
            "loses": judgement.loses,
            "setting": judgement.setting,
            "value": judgement.value,
            "default": judgement.default,
            "why": judgement.why,
            "library": judgement.library,
            "holds_since": judgement.holds_since.map(|version| version.to_string()),
            "write": write.collect::<Vec<_>>(),
            "otherwise": judgement.otherwise,
        })
    });
    let faults = report
        .faults
        .iter()
        .map(|fault| json!({"line": fault.at.map(|at| at.line), "column": fault.at.map(|at| at.column), "what": fault.what}));
    json!({
        "format": 1,
        "kind": "limits_check",
        "file": file,
        "as": report.kind.map(crate::Kind::name),
        "judgements": judgements.collect::<Vec<_>>(),
        "faults": faults.collect::<Vec<_>>(),
        "notes": report.notes,
    })
}
