//! The table of paths: what fits, chosen by what matters most, in a fixed order.

use super::copy::Row;
use super::inks::Inks;
use super::names;
use super::order::By;
use super::state::State;
use super::view::View;
use fathom_core::units::narrow::{QUANTILES, count, time_or_dash};
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Row as Cells, Table, Widget};

/// The columns in the order in which they stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    State,
    Reflector,
    Open,
    Samples,
    Unanswered,
    Now,
    Quantile(usize),
    Max,
}

const ORDER: [Column; 11] = [
    Column::State,
    Column::Reflector,
    Column::Open,
    Column::Samples,
    Column::Unanswered,
    Column::Now,
    Column::Quantile(0),
    Column::Quantile(1),
    Column::Quantile(2),
    Column::Quantile(3),
    Column::Max,
];

/// The columns in the order in which they are given room.
const PRIORITY: [Column; 11] = [
    Column::State,
    Column::Now,
    Column::Quantile(0),
    Column::Quantile(2),
    Column::Unanswered,
    Column::Max,
    Column::Quantile(1),
    Column::Quantile(3),
    Column::Samples,
    Column::Open,
    Column::Reflector,
];

/// Room for a label at least, and at most.
const LABEL: (usize, usize) = (8, 32);
/// From this width on figures have four digits.
const ROOMY: u16 = 100;

/// Draws the table; the widths depend on nothing that changes with every sample.
pub(super) fn draw(
    buf: &mut Buffer,
    area: Rect,
    labels: &[&str],
    rows: &[Row],
    view: &View,
    remote_width: usize,
    inks: Inks,
) {
    if area.is_empty() {
        return;
    }
    let digits = if area.width >= ROOMY { 4 } else { 3 };
    let width = |column: Column| match column {
        Column::State => 13,
        Column::Reflector => remote_width.clamp(9, 47),
        Column::Open => 5,
        Column::Samples => 7,
        Column::Unanswered => 11,
        Column::Now | Column::Quantile(_) | Column::Max => digits + 3,
    };
    // The mark of the selected path stands before the label.
    let wanted = 2 + labels.iter().map(|label| Span::raw(*label).width()).max().unwrap_or(0);
    let wanted = wanted.clamp(LABEL.0, LABEL.1);
    let granted = wanted.min(if area.width >= ROOMY { 24 } else { 14 });
    let mut free = usize::from(area.width).saturating_sub(granted);
    let mut chosen = Vec::new();
    for column in PRIORITY {
        if free > width(column) {
            free -= width(column) + 1;
            chosen.push(column);
        }
    }
    let label_width = wanted.min(granted + free);
    let shown: Vec<Column> = ORDER.into_iter().filter(|column| chosen.contains(column)).collect();

    let names = names::cut(labels, label_width - 2);
    let sorted = |by: By| match (view.sort.by == by, view.sort.turned == (by == By::Name)) {
        (false, _) => "",
        (true, true) => "↓",
        (true, false) => "↑",
    };
    let mut head = vec![Cell::from(format!("  path{}", sorted(By::Name)))];
    head.extend(shown.iter().map(|&column| {
        let line = Line::raw(format!("{}{}", name(column), sort_key(column).map_or("", sorted)));
        Cell::from(if is_figure(column) { line.right_aligned() } else { line })
    }));
    let body = rows.iter().map(|row| {
        let mark = if row.path == view.selected { "> " } else { "  " };
        let mut cells = vec![Cell::from(format!("{mark}{}", names.get(row.path).map_or("", String::as_str)))];
        cells.extend(shown.iter().map(|&column| {
            let line = Line::raw(text(column, row, digits));
            let ink = match column {
                Column::State => inks.state(row.state),
                Column::Unanswered if row.unanswered > 0 => inks.bad,
                Column::Unanswered if row.late > 0 => inks.odd,
                _ => inks.plain,
            };
            Cell::from(if is_figure(column) { line.right_aligned() } else { line }).style(ink)
        }));
        let style = if row.path == view.selected && labels.len() > 1 {
            inks.plain.add_modifier(Modifier::BOLD)
        } else {
            inks.plain
        };
        Cells::new(cells).style(style)
    });
    let mut widths = vec![Constraint::Length(label_width as u16)];
    widths.extend(shown.iter().map(|&column| Constraint::Length(width(column) as u16)));
    Widget::render(Table::new(body, widths).header(Cells::new(head).style(inks.dim)), area, buf);
}

/// What the paths may be sorted by, of what this column shows.
fn sort_key(column: Column) -> Option<By> {
    match column {
        Column::Quantile(0) => Some(By::P50),
        Column::Quantile(2) => Some(By::P99),
        Column::Max => Some(By::Max),
        Column::Unanswered => Some(By::Unanswered),
        _ => None,
    }
}

fn is_figure(column: Column) -> bool {
    !matches!(column, Column::State | Column::Reflector)
}

fn name(column: Column) -> &'static str {
    match column {
        Column::State => "state",
        Column::Reflector => "reflector",
        Column::Open => "open",
        Column::Samples => "samples",
        Column::Unanswered => "unans/late",
        Column::Now => "rtt",
        Column::Quantile(i) => QUANTILES[i].0,
        Column::Max => "max",
    }
}

fn text(column: Column, row: &Row, digits: usize) -> String {
    match column {
        Column::State => row.state.text(),
        Column::Reflector => row.remote.clone().unwrap_or_else(|| time_or_dash(None, digits)),
        Column::Open => count(row.open.into()),
        Column::Samples if row.samples < 10_000_000 => row.samples.to_string(),
        Column::Samples => count(row.samples),
        Column::Unanswered => format!("{}/{}", count(row.unanswered), count(row.late)),
        Column::Now => time_or_dash(row.now_ns.filter(|_| row.state != State::NotConnected), digits),
        Column::Quantile(i) => time_or_dash(row.quantiles_ns[i], digits),
        Column::Max => time_or_dash(row.max_ns, digits),
    }
}
