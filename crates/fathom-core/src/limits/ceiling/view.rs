//! The steps of a search for the rate ceiling that goes on, as a picture of a few lines.

use super::outcome::{Row, rate};
use super::search::CeilingSearch;
use super::step::Step;
use crate::event::Judged;
use crate::text::count;
use crate::units::duration_text as duration;
use std::fmt::Write as _;

/// What the letters mean.
const LEGEND: &str = "+ as good as below   x worse   ! worse for a moment   - not reached   > now";
/// Columns before the letters, for the lowest rate of a line.
const SCALE: usize = 11;
/// A step, what is waited for after it where echoes come in time, and the rest.
const A_STEP_NS: u64 = 2_500_000_000;

/// How far it is, in lines of fewer than `columns`: a letter a rate, from the lowest, and how the last step went. Without room
/// for the letters the first line alone.
pub fn ceiling_picture(search: &CeilingSearch, after_ns: u64, columns: usize, rows: usize) -> Vec<String> {
    let cut = |line: String| line.chars().take(columns.saturating_sub(1)).collect::<String>();
    let first = cut(now(search, after_ns));
    let room = columns.saturating_sub(SCALE + 2);
    let levels = search.rates();
    if room < 10 || levels.len().div_ceil(room) + 3 > rows || LEGEND.len() >= columns {
        return vec![first];
    }
    let lines = levels.chunks(room).map(|line| {
        let letters: String = line.iter().map(|rate| letter(search, *rate)).collect();
        format!("{:>SCALE$} {letters}", rate(line[0])).trim_end().to_owned()
    });
    let last = search.steps().last().map(|step| cut(Row::of(step).line()));
    [first].into_iter().chain(lines).chain(last).chain([LEGEND.to_owned()]).collect()
}

fn now(search: &CeilingSearch, after_ns: u64) -> String {
    let steps = count(search.steps().len() as u64, "step");
    let mut line = format!("after {}: {steps}", duration(after_ns / 1_000_000_000 * 1_000_000_000));
    if let Some(carried) = search.carried() {
        let _ = write!(line, "; {} is carried", rate(carried.rate_per_s));
    }
    if let Some(step) = search.step() {
        let to_go = duration(search.left() as u64 * A_STEP_NS);
        let _ = write!(line, "; now {}; {to_go} to go if none is worse", rate(step.rate_per_s));
    }
    line
}

/// What is known of a rate: how its last step was judged.
fn letter(search: &CeilingSearch, rate_per_s: u32) -> char {
    if search.step().map(|step: Step| step.rate_per_s) == Some(rate_per_s) {
        return '>';
    }
    match search.steps().iter().rfind(|step| step.rate_per_s == rate_per_s).map(|step| step.judged) {
        Some(Judged::Good) => '+',
        Some(Judged::Doubtful | Judged::Beyond | Judged::Lossy) => 'x',
        Some(Judged::Moment) => '!',
        Some(Judged::HostLate | Judged::NotReached) => '-',
        None => ' ',
    }
}
