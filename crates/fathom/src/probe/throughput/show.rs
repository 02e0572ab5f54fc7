//! What people see while a test runs: a line a second.

use super::super::config::Show;
use super::plan::Plan;
use crate::summary::duration;
use crate::throughput::flows::{LOOK_NS, Told};
use crate::throughput::words::{bytes, micros, rate};
use fathom_core::throughput::Direction;

/// What begins.
pub(super) fn introduction(plan: &Plan, recording: Option<&str>) {
    if plan.config.show == Show::Nothing {
        return;
    }
    let which = match plan.direction {
        Direction::Forward => "from here",
        Direction::Reverse => "to here",
        Direction::Bidirectional => "both ways",
    };
    let streams =
        if plan.parallel == 1 { "one stream".to_owned() } else { format!("{} streams", plan.parallel) };
    let time = duration(plan.duration.as_nanos() as u64);
    let kept = recording.map_or("not recorded".to_owned(), |dir| format!("recorded in {dir}"));
    eprintln!("measuring throughput {which}, {}, {streams}, for {time}; {kept}", plan.path().target);
}

/// The intervals that ended now; with `--plain` a line a stream.
pub(super) fn intervals(plan: &Plan, begun_ns: u64, told: &[Told]) {
    // What is left at the end of the last second is no figure to look at.
    let length_ns = told.first().map_or(0, |one| one.interval.length_ns);
    if plan.config.show == Show::Nothing || length_ns < LOOK_NS {
        return;
    }
    let since = |one: &Told| format!("{:6.1} s", one.at_ns.saturating_sub(begun_ns) as f64 / 1e9);
    let omitted = |one: &Told| if one.omitted { "  (left out)" } else { "" };
    if plan.config.show == Show::Plain {
        for one in told {
            let words = words(one.sends, std::slice::from_ref(one));
            eprintln!("{}  stream {}  {words}{}", since(one), one.stream, omitted(one));
        }
        return;
    }
    let parts: Vec<String> = [true, false]
        .into_iter()
        .map(|sends| (sends, told.iter().filter(|one| one.sends == sends).copied().collect::<Vec<_>>()))
        .filter(|(_, of)| !of.is_empty())
        .map(|(sends, of)| words(sends, &of))
        .collect();
    eprintln!("{}  {}{}", since(&told[0]), parts.join("   "), omitted(&told[0]));
}

/// Streams of one way together: their rates add up, windows and round trips are means.
fn words(sends: bool, told: &[Told]) -> String {
    let bits: u128 = told
        .iter()
        .map(|one| u128::from(one.interval.bytes) * 8_000_000_000 / u128::from(one.interval.length_ns.max(1)))
        .sum();
    let did = if sends { "sent" } else { "received" };
    let mut words = vec![format!("{did} {}", rate(u64::try_from(bits).unwrap_or(u64::MAX)))];
    let mean =
        |values: Vec<u64>| (!values.is_empty()).then(|| values.iter().sum::<u64>() / values.len() as u64);
    if let Some(resent) = told.iter().map(|one| one.interval.retransmits).sum::<Option<u32>>() {
        words.push(format!("resent {resent}"));
    }
    if let Some(cwnd) = mean(told.iter().filter_map(|one| one.interval.cwnd_bytes).collect()) {
        words.push(format!("cwnd {}", bytes(cwnd)));
    }
    if let Some(srtt) = mean(told.iter().filter_map(|one| one.interval.srtt_us.map(u64::from)).collect()) {
        words.push(format!("srtt {}", micros(srtt)));
    }
    words.join("  ")
}
