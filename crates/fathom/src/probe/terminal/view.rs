//! What the keys have set, and what each key does to it. Without a terminal and without a clock.

use super::order::Sort;
use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// Seconds to a column of the strip.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Zoom {
    /// The least that ten minutes have room with.
    #[default]
    Fit,
    Second,
    TenSeconds,
    Minute,
}

impl Zoom {
    /// So many seconds, or as many as fit.
    pub(super) fn step_s(self) -> Option<i64> {
        match self {
            Self::Fit => None,
            Self::Second => Some(1),
            Self::TenSeconds => Some(10),
            Self::Minute => Some(60),
        }
    }

    /// The next zoom that shows something else. `fit_s`: seconds per column of `Fit`.
    fn next(self, fit_s: Option<i64>) -> Self {
        let shown_s = |zoom: Self| zoom.step_s().or(fit_s);
        let mut next = self.after();
        while next != self && shown_s(next) == shown_s(self) {
            next = next.after();
        }
        next
    }

    fn after(self) -> Self {
        match self {
            Self::Fit => Self::Second,
            Self::Second => Self::TenSeconds,
            Self::TenSeconds => Self::Minute,
            Self::Minute => Self::Fit,
        }
    }
}

/// What the keys have set.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct View {
    /// Which path is shown below the table.
    pub(super) selected: usize,
    /// Whether the help line is shown.
    pub(super) help: bool,
    /// How often the end was asked for.
    pub(super) asked: u32,
    /// Whether the display stands still.
    pub(super) paused: bool,
    pub(super) zoom: Zoom,
    /// Seconds per column of `Zoom::Fit`, as of the last picture; `None`: it had no strip.
    pub(super) fit_s: Option<i64>,
    pub(super) sort: Sort,
    /// The paths in the order of the rows; empty: the order in which they were given.
    pub(super) order: Vec<usize>,
}

/// What is to be done about a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Nothing,
    Redraw,
    /// The figures shown are to begin anew.
    Reset,
    End,
}

impl View {
    /// In raw mode Ctrl-C arrives as a key like any other.
    pub(super) fn key(&mut self, key: KeyEvent, paths: usize) -> Answer {
        if key.kind == KeyEventKind::Release {
            return Answer::Nothing;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let last = paths.saturating_sub(1);
        match key.code {
            KeyCode::Char('c' | 'C') if control => self.end(),
            KeyCode::Char('l' | 'L') if control => Answer::Redraw,
            KeyCode::Char(_) if control => Answer::Nothing,
            KeyCode::Char('q' | 'Q') => self.end(),
            KeyCode::Char('?') => {
                self.help = !self.help;
                Answer::Redraw
            }
            KeyCode::Char('s') if paths > 1 => {
                self.sort = self.sort.next();
                Answer::Redraw
            }
            KeyCode::Char('S') if paths > 1 => {
                self.sort = self.sort.turned();
                Answer::Redraw
            }
            KeyCode::Char('p' | 'P' | ' ') => {
                self.paused = !self.paused;
                Answer::Redraw
            }
            KeyCode::Char('z' | 'Z') => {
                self.zoom = self.zoom.next(self.fit_s);
                Answer::Redraw
            }
            KeyCode::Char('r' | 'R') => {
                // What begins anew is to be seen doing so.
                self.paused = false;
                Answer::Reset
            }
            KeyCode::Up => self.select(self.row().saturating_sub(1)),
            KeyCode::Down => self.select((self.row() + 1).min(last)),
            KeyCode::Tab if paths > 0 => self.select((self.row() + 1) % paths),
            KeyCode::BackTab if paths > 0 => self.select((self.row() + paths - 1) % paths),
            KeyCode::Home => self.select(0),
            KeyCode::End => self.select(last),
            _ => Answer::Nothing,
        }
    }

    /// The row of the selected path, from 0.
    pub(super) fn row(&self) -> usize {
        self.order.iter().position(|&path| path == self.selected).unwrap_or(self.selected)
    }

    /// The path of a row.
    pub(super) fn path(&self, row: usize) -> usize {
        self.order.get(row).copied().unwrap_or(row)
    }

    fn end(&mut self) -> Answer {
        self.asked += 1;
        Answer::End
    }

    fn select(&mut self, row: usize) -> Answer {
        self.selected = self.path(row);
        Answer::Redraw
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::terminal::order::By;

    fn press(view: &mut View, code: KeyCode) -> Answer {
        view.key(KeyEvent::new(code, KeyModifiers::NONE), 3)
    }

    fn letters(view: &mut View, letters: &str) -> Vec<Answer> {
        letters.chars().map(|letter| press(view, KeyCode::Char(letter))).collect()
    }

    #[test]
    fn keys_select_help_and_end() {
        let mut view = View::default();
        let mut press = |code, modifiers| {
            let answer = view.key(KeyEvent::new(code, modifiers), 3);
            (answer, view.selected, view.help, view.asked)
        };
        let (none, control) = (KeyModifiers::NONE, KeyModifiers::CONTROL);
        assert_eq!(press(KeyCode::Up, none), (Answer::Redraw, 0, false, 0));
        assert_eq!(press(KeyCode::Down, none), (Answer::Redraw, 1, false, 0));
        assert_eq!(press(KeyCode::Tab, none), (Answer::Redraw, 2, false, 0));
        assert_eq!(press(KeyCode::Down, none), (Answer::Redraw, 2, false, 0));
        assert_eq!(press(KeyCode::Tab, none), (Answer::Redraw, 0, false, 0));
        assert_eq!(press(KeyCode::BackTab, none), (Answer::Redraw, 2, false, 0));
        assert_eq!(press(KeyCode::Char('?'), none), (Answer::Redraw, 2, true, 0));
        assert_eq!(press(KeyCode::Char('x'), none), (Answer::Nothing, 2, true, 0));
        assert_eq!(press(KeyCode::Char('c'), none), (Answer::Nothing, 2, true, 0));
        // Ctrl-R, Ctrl-S and Ctrl-Z are no letters: people press them for other things.
        for letter in ['p', 'q', 'r', 's', 'z'] {
            assert_eq!(press(KeyCode::Char(letter), control), (Answer::Nothing, 2, true, 0), "Ctrl-{letter}");
        }
        assert_eq!(press(KeyCode::Char('c'), control), (Answer::End, 2, true, 1));
        assert_eq!(press(KeyCode::Char('q'), none), (Answer::End, 2, true, 2));
        let released = KeyEvent::new_with_kind(KeyCode::Char('q'), none, KeyEventKind::Release);
        assert_eq!(view.key(released, 3), Answer::Nothing);
    }

    #[test]
    fn arrows_follow_rows_and_sorting_keeps_selection() {
        let mut view = View { order: vec![2, 0, 1], ..View::default() };
        assert_eq!(view.row(), 1);
        press(&mut view, KeyCode::Down);
        assert_eq!((view.selected, view.row()), (1, 2));
        press(&mut view, KeyCode::Home);
        assert_eq!(view.selected, 2);
        press(&mut view, KeyCode::BackTab);
        assert_eq!(view.selected, 1, "from the first row to the last");
        view.order = vec![1, 2, 0];
        assert_eq!((view.selected, view.row()), (1, 0));
    }

    #[test]
    fn the_orders_follow_one_another_and_turn() {
        let mut view = View::default();
        let mut seen = Vec::new();
        for answer in 0..6 {
            assert_eq!(letters(&mut view, "s"), [Answer::Redraw], "{answer}");
            seen.push(view.sort.by);
        }
        assert_eq!(seen, [By::Name, By::P50, By::P99, By::Max, By::Unanswered, By::Given]);
        letters(&mut view, "sS");
        assert!(view.sort.by == By::Name && view.sort.turned);
        letters(&mut view, "s");
        assert!(view.sort.by == By::P50 && !view.sort.turned, "the next order begins the right way round");
        // Of one path there is nothing to sort.
        let key = KeyEvent::new(KeyCode::Char('s'), KeyModifiers::NONE);
        assert_eq!(View::default().key(key, 1), Answer::Nothing);
    }

    /// A run shorter than the strip is wide is shown a second to a column anyway: the first `z` did nothing.
    #[test]
    fn each_zoom_key_changes_the_strip() {
        for fit_s in [None, Some(1), Some(2), Some(10), Some(60), Some(120)] {
            let mut view = View { fit_s, ..View::default() };
            let mut seen = Vec::new();
            for key in 0..8 {
                let before = view.zoom.step_s().or(fit_s);
                letters(&mut view, "z");
                assert_ne!(view.zoom.step_s().or(fit_s), before, "key {key}, {fit_s:?} to a column");
                seen.push(view.zoom.step_s().or(fit_s));
            }
            assert!([1, 10, 60].iter().all(|step| seen.contains(&Some(*step))), "{fit_s:?}: {seen:?}");
        }
    }

    #[test]
    fn zoom_goes_round_and_pause_and_back() {
        let mut view = View::default();
        let mut seen = Vec::new();
        for _ in 0..4 {
            letters(&mut view, "z");
            seen.push(view.zoom.step_s());
        }
        assert_eq!(seen, [Some(1), Some(10), Some(60), None]);
        letters(&mut view, "p");
        assert!(view.paused);
        letters(&mut view, " ");
        assert!(!view.paused);
        letters(&mut view, "p");
        assert_eq!(letters(&mut view, "r"), [Answer::Reset]);
        assert!(!view.paused, "what begins anew is shown");
    }
}
