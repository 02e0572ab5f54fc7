//! What people see while a test runs: a line a second.

use super::super::config::Show;
use super::plan::Plan;
use crate::output::tell;
use fathom_core::units::duration_compact as duration;
use fathom_core::units::{rate_text, size_text};
use fathom_iperf3::{Direction, StreamInterval};

/// What is left at the end of the last second is often shorter, and no figure to look at.
const SHORTEST_SHOWN_NS: u64 = 100_000_000;

/// What begins.
pub(super) fn introduction(plan: &Plan, recording: Option<&str>) {
    if plan.config.show == Show::Nothing {
        return;
    }
    let which = match plan.test.direction {
        Direction::Forward => "from here",
        Direction::Reverse => "to here",
        Direction::Bidirectional => "both ways",
    };
    let streams = fathom_core::text::count(plan.test.parallel.into(), "stream");
    let time = duration(plan.test.duration.as_nanos() as u64);
    let kept = recording.map_or("not recorded".to_owned(), |dir| format!("recorded in {dir}"));
    tell!("measuring throughput {which}, {}, {streams}, for {time}; {kept}", plan.path().target);
}

/// The intervals that ended now; with `--plain` a line a stream.
pub(super) fn intervals(plan: &Plan, begun_ns: u64, intervals: &[StreamInterval]) {
    let length_ns = intervals.first().map_or(0, |one| one.interval.length_ns);
    if plan.config.show == Show::Nothing || length_ns < SHORTEST_SHOWN_NS {
        return;
    }
    let since = |one: &StreamInterval| format!("{:6.1} s", one.at_ns.saturating_sub(begun_ns) as f64 / 1e9);
    let omitted = |one: &StreamInterval| if one.omitted { "  (left out)" } else { "" };
    if plan.config.show == Show::Plain {
        for one in intervals {
            let words = words(one.sends, std::slice::from_ref(one));
            tell!("{}  stream {}  {words}{}", since(one), one.stream, omitted(one));
        }
        return;
    }
    let parts: Vec<String> = [true, false]
        .into_iter()
        .map(|sends| (sends, intervals.iter().filter(|one| one.sends == sends).copied().collect::<Vec<_>>()))
        .filter(|(_, of)| !of.is_empty())
        .map(|(sends, of)| words(sends, &of))
        .collect();
    tell!("{}  {}{}", since(&intervals[0]), parts.join("   "), omitted(&intervals[0]));
}

/// Streams of one way together: their rates add up, windows and round trips are means.
fn words(sends: bool, intervals: &[StreamInterval]) -> String {
    let bits: u128 = intervals
        .iter()
        .map(|one| u128::from(one.interval.bytes) * 8_000_000_000 / u128::from(one.interval.length_ns.max(1)))
        .sum();
    let did = if sends { "sent" } else { "received" };
    let mut words = vec![format!("{did} {}", rate_text(u64::try_from(bits).unwrap_or(u64::MAX)))];
    let mean =
        |values: Vec<u64>| (!values.is_empty()).then(|| values.iter().sum::<u64>() / values.len() as u64);
    if let Some(resent) = intervals.iter().map(|one| one.interval.retransmits).sum::<Option<u32>>() {
        words.push(format!("resent {resent}"));
    }
    if let Some(cwnd) = mean(intervals.iter().filter_map(|one| one.interval.cwnd_bytes).collect()) {
        words.push(format!("cwnd {}", size_text(cwnd)));
    }
    if let Some(srtt) = mean(intervals.iter().filter_map(|one| one.interval.srtt_us.map(u64::from)).collect())
    {
        words.push(format!("srtt {}", duration(srtt.saturating_mul(1_000))));
    }
    words.join("  ")
}
