//! The strip: the last minutes second by second, from smallest to largest round trip with the mean between them.

use super::inks::{Inks, fitting, rule};
use super::view::Zoom;
use fathom_core::strip::Second;
use fathom_core::units::duration_compact as duration;
use fathom_core::units::narrow as figures;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// Seconds to a column, when one is too few: steps that people can read a time from.
const STEPS_S: [i64; 16] = [1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 21_600];
/// From this ratio of largest to smallest on, the scale is logarithmic.
const LOG_FROM: f64 = 8.0;
/// Columns before the strip for its scale.
const SCALE: u16 = 8;

/// A column without samples; its second is not looked at.
const EMPTY: Second =
    Second { utc_s: 0, samples: 0, unanswered: 0, late: 0, min_ns: i64::MAX, max_ns: 0, sum_ns: 0 };

fn add(column: &mut Second, second: &Second) {
    column.samples += second.samples;
    column.unanswered += second.unanswered;
    column.late += second.late;
    column.min_ns = column.min_ns.min(second.min_ns);
    column.max_ns = column.max_ns.max(second.max_ns);
    column.sum_ns = column.sum_ns.saturating_add(second.sum_ns);
}

/// The seconds put into columns, the last of which holds `now_s`; and the seconds to a column, where they are not given.
fn columns(seconds: &[Second], now_s: i64, width: usize, step: Option<i64>) -> (Vec<Second>, i64) {
    // What the wall clock, having been set back, now calls the future is not shown until it comes.
    let step = step.unwrap_or_else(|| fitting_step(seconds.first().map(|first| first.utc_s), now_s, width));
    let mut columns = vec![EMPTY; width];
    let last = now_s.div_euclid(step);
    for second in seconds {
        // Columns begin at multiples of the step, so that a second stays in its column while the strip moves on.
        let back = last - second.utc_s.div_euclid(step);
        if let Ok(back) = usize::try_from(back)
            && back < width
        {
            add(&mut columns[width - 1 - back], second);
        }
    }
    (columns, step)
}

/// The fewest seconds per column with which everything since the first second fits.
fn fitting_step(first_s: Option<i64>, now_s: i64, width: usize) -> i64 {
    let span = first_s.map_or(1, |first_s| (now_s - first_s + 1).max(1));
    let fits = |step: &&i64| **step * width as i64 >= span + **step;
    STEPS_S.iter().find(fits).copied().unwrap_or(STEPS_S[STEPS_S.len() - 1])
}

/// Seconds per column of a strip in this area that shows everything; `None`: the area is too small for a strip.
pub(super) fn fit_s(area: Rect, first_s: Option<i64>, now_s: i64) -> Option<i64> {
    has_room(area).then(|| fitting_step(first_s, now_s, usize::from(area.width - SCALE)))
}

fn has_room(area: Rect) -> bool {
    area.height >= 3 && area.width > SCALE
}

/// From a round trip to a height.
#[derive(Debug, Clone, Copy)]
struct Scale {
    low: f64,
    high: f64,
    log: bool,
}

impl Scale {
    fn of(columns: &[Second]) -> Option<Self> {
        let answered = || columns.iter().filter(|c| c.answered() > 0);
        let low = answered().map(|c| c.min_ns.max(1)).min()? as f64;
        let high = answered().map(|c| c.max_ns.max(1)).max()? as f64;
        // A little room around values that are nearly alike, so that noise does not look like news.
        let (low, high) = if high / low < 1.1 { (low / 1.05, high * 1.05) } else { (low, high) };
        Some(Self { low, high, log: high / low >= LOG_FROM })
    }

    /// Which of so many rows, from 0 at the bottom.
    fn row(&self, ns: i64, rows: u16) -> u16 {
        let ns = (ns as f64).clamp(self.low, self.high);
        let share = if self.log {
            (ns / self.low).ln() / (self.high / self.low).ln()
        } else {
            (ns - self.low) / (self.high - self.low)
        };
        (share * f64::from(rows - 1)).round() as u16
    }

    /// The value in the middle of a row.
    fn at(&self, row: u16, rows: u16) -> u64 {
        let share = f64::from(row) / f64::from((rows - 1).max(1));
        let ns = if self.log {
            self.low * (self.high / self.low).powf(share)
        } else {
            self.low + (self.high - self.low) * share
        };
        ns.round() as u64
    }
}

/// Draws the strip; its last row marks the columns with unanswered and late samples.
pub(super) fn draw(buf: &mut Buffer, area: Rect, seconds: &[Second], now_s: i64, zoom: Zoom, inks: Inks) {
    if area.is_empty() {
        return;
    }
    if !has_room(area) {
        rule(buf, area, "", inks);
        return;
    }
    let width = area.width - SCALE;
    let (columns, step) = columns(seconds, now_s, usize::from(width), zoom.step_s());
    let scale = Scale::of(&columns);
    let kind = if scale.is_some_and(|s| s.log) { "log scale" } else { "linear" };
    let shown = duration((step * i64::from(width)) as u64 * 1_000_000_000);
    let a_column = duration(step as u64 * 1_000_000_000);
    let short = format!("last {shown}, {a_column} a column, {kind}");
    let long = format!("{short}: ● mean, │ min to max, x no echo, l late");
    rule(buf, area, &fitting(vec![long, format!("{short}: x no echo, l late"), short], area.width), inks);
    let rows = area.height - 2;
    let left = area.x + SCALE;
    let bottom = area.y + rows;
    if let Some(scale) = scale {
        let mut labelled = vec![0, rows - 1];
        if rows >= 5 {
            labelled.push(rows / 2);
        }
        for row in labelled {
            let text = figures::time(scale.at(row, rows), 3);
            buf.set_string(area.x, bottom - row, format!("{text:>7}"), inks.dim);
        }
        for (x, column) in columns.iter().enumerate() {
            let Some(mean_ns) = column.mean_ns() else { continue };
            let x = left + x as u16;
            for row in scale.row(column.min_ns, rows)..=scale.row(column.max_ns, rows) {
                buf.set_string(x, bottom - row, "│", inks.dim);
            }
            buf.set_string(x, bottom - scale.row(mean_ns, rows), "●", inks.bar);
        }
    }
    for (x, column) in columns.iter().enumerate() {
        let mark = match (column.unanswered, column.late) {
            (1.., _) => Some(("x", inks.bad)),
            (0, 1..) => Some(("l", inks.odd)),
            (0, 0) => None,
        };
        if let Some((symbol, ink)) = mark {
            buf.set_string(left + x as u16, bottom + 1, symbol, ink);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(utc_s: i64, rtts: &[i64], unanswered: u32) -> Second {
        let samples = rtts.len() as u32 + unanswered;
        let min_ns = rtts.iter().copied().min().unwrap_or(i64::MAX);
        let max_ns = rtts.iter().copied().max().unwrap_or(0);
        Second { utc_s, samples, unanswered, late: 0, min_ns, max_ns, sum_ns: rtts.iter().sum() }
    }

    #[test]
    fn seconds_map_to_columns_back_from_now() {
        let seconds = [second(95, &[100, 300], 0), second(98, &[], 2), second(101, &[5], 0)];
        let (columns, step) = columns(&seconds, 100, 10, None);
        assert_eq!(step, 1);
        assert_eq!((columns[4].min_ns, columns[4].max_ns, columns[4].mean_ns()), (100, 300, Some(200)));
        assert_eq!((columns[7].answered(), columns[7].unanswered), (0, 2));
        assert_eq!(columns.iter().filter(|c| **c != EMPTY).count(), 2, "the future is not shown");
    }

    #[test]
    fn ten_minutes_fit_narrow_strip_without_loss() {
        let seconds: Vec<Second> = (1_000..1_600).map(|s| second(s, &[s], 0)).collect();
        let (columns, step) = columns(&seconds, 1_599, 70, None);
        assert_eq!(step, 10);
        assert_eq!(columns.iter().map(Second::answered).sum::<u32>(), 600);
    }

    #[test]
    fn zoom_shows_latest_seconds_that_fit() {
        let seconds: Vec<Second> = (1_000..1_600).map(|s| second(s, &[s], 0)).collect();
        let (each, step) = columns(&seconds, 1_599, 70, Zoom::Second.step_s());
        assert_eq!((step, each[0].min_ns, each[69].max_ns), (1, 1_530, 1_599));
        let minutes: Vec<Second> = (0..30).map(|m| second(m * 60, &[m + 1, 7], 1)).collect();
        let (each, step) = columns(&minutes, 29 * 60 + 59, 70, Zoom::Minute.step_s());
        assert_eq!((step, each[69].samples, each[69].max_ns), (60, 3, 30));
        assert_eq!((each[40].samples, each[39]), (3, EMPTY));
        assert_eq!(columns(&seconds, 1_599, 70, Zoom::Fit.step_s()).1, 10);
    }

    #[test]
    fn the_scale_puts_the_extremes_at_its_ends() {
        let scale = Scale::of(&[second(0, &[1_000, 100_000], 0)]).unwrap();
        assert!(scale.log);
        assert_eq!([1_000, 10_000, 100_000].map(|ns| scale.row(ns, 5)), [0, 2, 4]);
        assert_eq!(scale.at(2, 5), 10_000);
        assert!(Scale::of(&[EMPTY]).is_none());
    }
}
