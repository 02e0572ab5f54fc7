//! What is shown where, for a terminal of this size: what matters less goes first when room is short.

use super::inks::{Alarm, alarm};
use super::view::View;
use ratatui::layout::Rect;
use ratatui::text::Span;
use std::ops::Range;

/// From this width on the strip and the bars stand side by side.
const WIDE: u16 = 110;
/// Below this width the table drops figures, which then have a line of their own for the selected path.
pub(super) const ALL_FIGURES: u16 = 80;
/// The least rows of a chart, its title and its axis included.
const CHART_ROWS: u16 = 5;
/// The most rows of a chart: what a tall screen has beyond them goes to the events.
const CHART_ROWS_MOST: u16 = 24;
/// Columns of the histogram at most: more would be narrower than its buckets.
const BARS_WIDE: u16 = 100;

/// The keys, for those who ask.
pub(super) const HELP: &str = "Up, Down, Tab: select a path   s: sort by name, p50, p99, max, unanswered (S: the other \
way round)   z: 1 s, 10 s, 1 min a column   p: pause the display (measuring goes on)   r: begin the figures anew (the \
recording is untouched)   q, Ctrl-C: end the run (again: at once, without waiting for the last echoes)   ?: this help   \
unans/late: samples without an echo / whose echo came after the timeout   –: too few samples for this figure";

/// The parts of the screen; a part of no size is not shown.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) header: Rect,
    pub(super) alarms: Rect,
    pub(super) table: Rect,
    /// The rows of the table that are in sight, of as many as there are paths.
    pub(super) rows: Range<usize>,
    pub(super) detail: Rect,
    pub(super) strip: Rect,
    pub(super) bars: Rect,
    pub(super) events: Rect,
    pub(super) help: Rect,
}

/// Cuts rows off the top of what is left.
fn cut(rest: &mut Rect, rows: u16) -> Rect {
    let rows = rows.min(rest.height);
    let part = Rect { height: rows, ..*rest };
    rest.y += rows;
    rest.height -= rows;
    part
}

impl Plan {
    pub(super) fn new(area: Rect, labels: &[&str], errors: &[Alarm], view: &View) -> Self {
        let mut plan = Self::default();
        let mut rest = area;
        plan.header = cut(&mut rest, 1);
        if view.help && rest.width > 0 {
            let lines = (HELP.chars().count() as u16).div_ceil(rest.width) + 1;
            let lines = lines.min(rest.height / 2);
            rest.height -= lines;
            plan.help = Rect { y: rest.y + rest.height, height: lines, ..rest };
        }
        // A long reason takes a second line, where there are lines to spare.
        let width = usize::from(area.width.max(1));
        let lines = |error| Span::raw(alarm(labels, error)).width().div_ceil(width).min(2);
        let lines = errors.iter().map(lines).sum::<usize>();
        plan.alarms = cut(&mut rest, lines.min(if area.height < 16 { 1 } else { 4 }) as u16);

        let paths = labels.len();
        let shown =
            paths.min(usize::from(rest.height / 3).max(1)).min(usize::from(rest.height.saturating_sub(1)));
        plan.table = cut(&mut rest, if shown > 0 { shown as u16 + 1 } else { 0 });
        // The selected path stays in sight, in the middle where there are more before and after it.
        let first = view.row().saturating_sub(shown / 2).min(paths - shown);
        plan.rows = first..first + shown;

        plan.detail = match rest.height {
            0..2 => Rect::default(),
            2..6 => cut(&mut rest, 2),
            6..13 => cut(&mut rest, if area.width < ALL_FIGURES { 3 } else { 2 }),
            _ => cut(&mut rest, if area.width < ALL_FIGURES { 4 } else { 3 }),
        };
        if rest.height >= CHART_ROWS + 3 {
            let events = (rest.height / 4).clamp(3, 16);
            let most = if area.width >= WIDE { CHART_ROWS_MOST } else { 2 * CHART_ROWS_MOST };
            let room = (rest.height - events).min(most);
            let mut charts = cut(&mut rest, room);
            if area.width >= WIDE {
                let bars = (charts.width * 2 / 5).min(BARS_WIDE);
                plan.strip = Rect { width: charts.width - bars - 1, ..charts };
                plan.bars = Rect { x: charts.x + charts.width - bars, width: bars, ..charts };
            } else if charts.height > 2 * CHART_ROWS {
                let rows = charts.height.div_ceil(2);
                plan.strip = cut(&mut charts, rows);
                plan.bars = charts;
            } else {
                plan.strip = charts;
            }
        }
        if rest.height >= 2 {
            plan.events = rest;
        }
        plan
    }
}
