//! How things are written: styles, rules, titles.

use super::state::State;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

/// How things are written. Colour only repeats what a word or a sign already says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inks {
    pub(super) plain: Style,
    pub(super) dim: Style,
    pub(super) strong: Style,
    /// For what is written over something dim.
    pub(super) over: Style,
    pub(super) bar: Style,
    pub(super) good: Style,
    pub(super) odd: Style,
    pub(super) bad: Style,
}

impl Inks {
    /// Without colour where `NO_COLOR` asks for that (<https://no-color.org>).
    pub(super) fn new(coloured: bool) -> Self {
        let plain = Style::new();
        let strong = plain.add_modifier(Modifier::BOLD);
        let ink = |colour, without: Style| if coloured { plain.fg(colour) } else { without };
        Self {
            plain,
            dim: plain.add_modifier(Modifier::DIM),
            strong,
            over: plain.remove_modifier(Modifier::DIM),
            bar: ink(Color::Cyan, plain).remove_modifier(Modifier::DIM),
            good: ink(Color::Green, plain),
            odd: ink(Color::Yellow, plain),
            bad: ink(Color::Red, plain).add_modifier(Modifier::BOLD),
        }
    }

    pub(super) fn state(&self, state: State) -> Style {
        match state {
            State::Ok => self.good,
            State::Stalled(..) => self.bad,
            State::NotConnected => self.odd.add_modifier(Modifier::BOLD),
        }
    }
}

/// What is not written any more of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Alarm {
    pub(super) path: usize,
    /// The head of what is said.
    pub(super) what: &'static str,
    pub(super) why: String,
}

/// What is said of it.
pub(super) fn alarm(labels: &[&str], Alarm { path, what, why }: &Alarm) -> String {
    format!("{what} {}: {why}", labels.get(*path).copied().unwrap_or(""))
}

/// The first of several titles, from the fullest to the shortest, that a rule of this width has room for.
pub(super) fn fitting(titles: Vec<String>, width: u16) -> String {
    let room = usize::from(width).saturating_sub(6);
    let shortest = titles.last().cloned().unwrap_or_default();
    titles.into_iter().find(|title| Span::raw(title).width() <= room).unwrap_or(shortest)
}

/// The first row of a part: its title, and a rule that parts it from what is above.
pub(super) fn rule(buf: &mut Buffer, area: Rect, title: &str, inks: Inks) {
    let row = Rect { height: 1, ..area };
    Line::styled("─".repeat(usize::from(area.width)), inks.dim).render(row, buf);
    if area.width > 4 {
        let within = Rect { x: area.x + 2, width: area.width - 3, ..row };
        Line::from(Span::styled(format!(" {title} "), inks.over)).render(within, buf);
    }
}
