//! What `fathom recording explain` may claim: nothing that does not stand in the events, and no surer than
//! `docs/verdicts.md` allows.

use super::faults::explanations;
use super::probe::fathom;
use super::rows::{Events, Row, has_kind, number, of_kind, rows};
use jiff::Timestamp;
use serde_json::Value;
use std::path::Path;

/// Words of a cause that a probe never sees.
const NEVER_SEEN: [&str; 7] = ["crash", "reboot", "overload", "migrat", "caused by", "due to", "fault of"];

/// A round trip below this is none that is called late.
const LATE_NS: i64 = 100_000_000;

/// Has a recording explained and checks every line of the story against the events; gives the story.
pub(crate) fn checked_story(dir: &Path, events: &Events) -> Vec<Value> {
    let outcome = fathom(dir, &["recording", "explain", ".", "--json"]);
    assert_eq!(outcome.code(), 0, "{}", outcome.err);
    let story = outcome.objects();
    for line in &story {
        check(line, events);
    }
    if let Some(line) = story.iter().find(|line| line["verdict"] == "delayed")
        && !has_kind(events, "clock.stepped")
    {
        let late =
            rows(dir).into_iter().any(|row| !waited_for_hosts(&row, events) && row.rtt_ns() >= Some(LATE_NS));
        assert!(late, "every late sample waited for a host to run: {line} {events:#?}");
    }
    // Every incident is told: what was explained stands in some line. A closing that was explained again when somebody
    // could be asked about it is told by its last explanation.
    let explained = of_kind(events, "connection.explained");
    for (i, explanation) in explained.iter().enumerate() {
        let again =
            |later: &&Value| later["about"] == "closing" && later["connection"] == explanation["connection"];
        if explanation["about"] == "closing" && explained[i + 1..].iter().any(again) {
            continue;
        }
        let fact = &explanation["because"][0];
        let told = |line: &Value| {
            let facts = line["evidence"].as_array().expect("a list");
            facts.iter().any(|told| told.as_str().is_some_and(|t| t.contains(fact.as_str().expect("a fact"))))
        };
        assert!(story.iter().any(told), "nothing tells {explanation}: {story:#?}");
    }
    story
}

/// Whether nearly all of a round trip waited for a host to run, by the pauses of the whole recording. When the reflector's was, before
/// the echo that told it, nobody knows.
fn waited_for_hosts(row: &Row, events: &Events) -> bool {
    let Some(rtt_ns) = row.rtt_ns() else { return false };
    let (sent_ns, read_ns) = (row.at("sent_ns"), row.at("sent_ns") + rtt_ns);
    let waited = of_kind(events, "pause").into_iter().map(|pause| {
        let ended: Timestamp = pause["at"].as_str().expect("a time").parse().expect("a time");
        let ended_ns = i64::try_from(ended.as_nanosecond()).expect("this century");
        let began_ns = ended_ns - number(pause, "duration_ns").cast_signed();
        (ended_ns.min(read_ns) - began_ns.max(sent_ns)).max(0)
    });
    waited.sum::<i64>() * 10 >= rtt_ns * 9
}

fn check(line: &Value, events: &Events) {
    let statement = line["statement"].as_str().expect("a sentence");
    let evidence: Vec<&str> = line["evidence"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|fact| fact.as_str().expect("text"))
        .collect();
    let confidence = line["confidence"].as_str().expect("a word");
    let sentences = evidence.iter().copied().chain([statement]);
    for sentence in sentences {
        let noted = sentence.starts_with("noted: ") || sentence.contains(" notice");
        let said = NEVER_SEEN.iter().find(|word| sentence.to_lowercase().contains(*word));
        assert!(noted || said.is_none(), "{said:?} is not in evidence: {line}");
        assert!(
            !sentence.contains("inside the window of") || sentence.contains("is not known"),
            "a coincidence: {line}"
        );
    }
    let Some(verdict) = line["verdict"].as_str() else {
        assert!(!statement.contains("Verdict:"), "{line}");
        assert!(confidence == "high" || confidence == "none", "nothing was judged: {line}");
        return;
    };
    assert_eq!(verdict == "unknown", confidence == "none", "{line}");
    let open = statement.contains("why is not known") || statement.contains("ended at this end");
    assert!(verdict != "unknown" || open, "{line}");
    // Several connections told as one have each theirs; here one is looked at.
    if line["connection"].is_null() {
        return;
    }
    if verdict == "delayed" {
        // Sure only where the reflector's stamps say on which way.
        let late = of_kind(events, "delay.ended");
        let stamped = late.iter().any(|event| event.get("forward_ns").is_some());
        assert!(!of_kind(events, "delay.began").is_empty(), "no event says so: {line}");
        return assert!(confidence == "medium" || confidence == "high" && stamped, "{line}");
    }
    let about = if line["cause"].is_null() { "stall" } else { "closing" };
    let recorded: Vec<&Value> = explanations(events, about)
        .into_iter()
        .filter(|event| event["connection"] == line["connection"] && event["verdict"] == verdict)
        .filter(|event| {
            let facts = event["because"].as_array().expect("facts");
            facts.iter().all(|fact| evidence.contains(&fact.as_str().expect("text")))
        })
        .collect();
    assert!(!recorded.is_empty(), "no event says so: {line} {events:#?}");
    assert!(statement.contains(&format!("erdict: {verdict}")), "{line}");
    let paused = |host: &str| of_kind(events, "pause").iter().any(|event| event["host"] == host);
    // The reflector's word is an observation, too.
    let said = |event: &Value, standing: &str| event["reflector"]["standing"] == standing;
    let states = |event: &Value, words: &str| {
        let facts = event["because"].as_array().expect("facts");
        facts.iter().any(|fact| fact.as_str().is_some_and(|fact| fact.contains(words)))
    };
    let observed = recorded.iter().any(|event| match (verdict, event["fresh"].as_str()) {
        ("path_down" | "local", Some("no_route")) => true,
        ("local", _) => states(event, "no longer had the address"),
        // A refusal may be of something before the host: only who it is that answers now shows that another is gone.
        ("peer_down", _) => states(event, "another process"),
        ("idle_expired", _) => said(event, "closed_idle"),
        ("path_down", _) => {
            event.get("direction").is_some()
                || states(event, "by its count")
                || states(event, "did not answer for its hardware address")
                || states(event, "is down or has no carrier")
        }
        ("peer_paused", _) => paused("remote"),
        ("local_paused", _) => paused("local"),
        _ => false,
    });
    assert!(confidence != "high" || observed, "nobody observed that: {line}");
    // Nobody sees who sent a RST; that it was not the reflector, only the reflector can say.
    let cleared = ["open", "closed_by_probe", "failed"];
    let cleared = recorded.iter().any(|event| cleared.iter().any(|standing| said(event, standing)));
    let reset = verdict == "flow_forgotten" && line["cause"] == "reset";
    assert!(confidence == "low" || !reset || cleared, "{line}");
}
