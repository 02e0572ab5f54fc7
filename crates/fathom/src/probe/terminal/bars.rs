//! The histogram of round trips: one bar a column, the columns evenly spaced on a logarithmic axis.

use super::inks::{Inks, fitting, rule};
use fathom_core::histogram::{Histogram, bucket_range};
use fathom_core::units::narrow::{self as figures, QUANTILES};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// A histogram whose values are all alike is still shown over at least this ratio, so that a column is never
/// narrower than a bucket.
const LEAST_RATIO: f64 = 1.2;
const EIGHTHS: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

/// Counts by column.
#[derive(Debug, PartialEq)]
pub(super) struct Bars {
    /// Left edge of the first column, ns.
    pub(super) low_ns: f64,
    /// Right edge of the last column, ns.
    pub(super) high_ns: f64,
    pub(super) counts: Vec<u64>,
}

impl Bars {
    /// `None` where nothing was counted or there is no room.
    pub(super) fn of(h: &Histogram, columns: usize) -> Option<Self> {
        let (min, max) = (h.min()?.max(1) as f64, h.max()?.max(1) as f64);
        if columns == 0 {
            return None;
        }
        let widen = (LEAST_RATIO / (max / min)).max(1.0).sqrt();
        let (low_ns, high_ns) = (min / widen, max * widen);
        let ratio = (high_ns / low_ns).powf(1.0 / columns as f64);
        let mut counts = vec![0; columns];
        let mut column = 0;
        let mut edge = low_ns * ratio;
        for (bucket, count) in h.buckets() {
            let (low, width) = bucket_range(bucket);
            let middle = (low + (width - 1) / 2) as f64;
            // Rounding may leave the largest value a hair beyond the last edge.
            while middle > edge && column + 1 < columns {
                column += 1;
                edge *= ratio;
            }
            counts[column] += count;
        }
        Some(Self { low_ns, high_ns, counts })
    }

    /// The column of a value.
    fn column(&self, ns: u64) -> usize {
        let share = ((ns.max(1)) as f64 / self.low_ns).ln() / (self.high_ns / self.low_ns).ln();
        ((share * self.counts.len() as f64) as usize).min(self.counts.len() - 1)
    }

    /// The value in the middle of the axis, or at its ends.
    fn at(&self, share: f64) -> u64 {
        (self.low_ns * (self.high_ns / self.low_ns).powf(share)).round() as u64
    }
}

/// Draws the bars, their axis, and where the percentiles lie on it.
pub(super) fn draw(
    buf: &mut Buffer,
    area: Rect,
    bars: Option<&Bars>,
    quantiles_ns: &[Option<u64>; 4],
    since: Option<&str>,
    inks: Inks,
) {
    if area.is_empty() {
        return;
    }
    let fullest = bars.and_then(|b| b.counts.iter().max().copied()).unwrap_or(0);
    let of = since.map_or_else(|| "of the whole run".to_owned(), |since| format!("since {since}"));
    let titles = match fullest {
        0 => vec!["round trips: none yet".to_owned()],
        n => vec![
            format!("round trips {of}, log axis, fullest bar {}", figures::count(n)),
            match since {
                None => format!("round trips, log axis, fullest bar {}", figures::count(n)),
                Some(since) => format!("round trips since {since}, log axis"),
            },
        ],
    };
    rule(buf, area, &fitting(titles, area.width), inks);
    let Some(bars) = bars.filter(|_| area.height >= 3) else { return };
    let marked = area.height >= 6;
    let rows = area.height - 2 - u16::from(marked);
    for (x, &count) in bars.counts.iter().take(usize::from(area.width)).enumerate() {
        // A column with one value among millions still shows: the tail is what people look for.
        let level = (count as f64 / fullest as f64 * f64::from(rows) * 8.0).round() as u64;
        let mut level = if count > 0 { level.max(1) } else { 0 };
        for row in (0..rows).rev() {
            let symbol = EIGHTHS[level.min(8) as usize];
            level = level.saturating_sub(8);
            buf.set_string(area.x + x as u16, area.y + 1 + row, symbol, inks.bar);
        }
    }
    let axis = area.y + 1 + rows;
    let width = usize::from(area.width);
    let mut free = 0;
    for halves in 0..=2 {
        let text = figures::time(bars.at(halves as f64 / 2.0), 3);
        let length = text.chars().count();
        // At the left edge, around the middle, and up to the right edge.
        let at = (halves * width / 2).saturating_sub(halves * length / 2);
        if at >= free && at + length <= width {
            buf.set_string(area.x + at as u16, axis, &text, inks.dim);
            free = at + length + 1;
        }
    }
    if !marked {
        return;
    }
    let mut free = 0;
    for ((name, _), ns) in QUANTILES.iter().zip(quantiles_ns) {
        let Some(ns) = ns else { continue };
        let at = bars.column(*ns);
        // Near the right edge the name stands before its arrow.
        let (at, text) = if at + 1 + name.len() > width {
            ((at + 1).saturating_sub(name.len() + 1), format!("{name}↑"))
        } else {
            (at, format!("↑{name}"))
        };
        if at >= free && at + name.len() < width {
            buf.set_string(area.x + at as u16, axis + 1, text, inks.dim);
            free = at + name.len() + 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_map_to_their_axis_columns() {
        let mut h = Histogram::default();
        let values = [1_000, 10_000, 10_000, 100_000, 1_000_000];
        for v in values {
            h.record(v);
        }
        // Three decades on 30 columns: ten columns a decade, the largest value in the last.
        let bars = Bars::of(&h, 30).unwrap();
        let full: Vec<(usize, u64)> =
            bars.counts.iter().copied().enumerate().filter(|&(_, c)| c > 0).collect();
        assert_eq!(full.iter().map(|f| f.1).sum::<u64>(), 5);
        assert_eq!((full[0], full[3]), ((0, 1), (29, 1)));
        assert!((9..=10).contains(&full[1].0) && full[1].1 == 2, "{full:?}");
        assert!((19..=20).contains(&full[2].0), "{full:?}");
    }

    #[test]
    fn equal_values_make_one_centred_bar() {
        let mut h = Histogram::default();
        for _ in 0..7 {
            h.record(50_000);
        }
        let bars = Bars::of(&h, 11).unwrap();
        assert_eq!(bars.counts[5], 7);
        assert_eq!(bars.counts.iter().sum::<u64>(), 7);
        assert_eq!(Bars::of(&Histogram::default(), 11), None);
    }
}
