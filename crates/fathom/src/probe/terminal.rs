//! The live view. It runs in its own thread, looks at the live states a few times a second, holds their lock only to copy
//! out what it is about to draw, and draws only when something has changed.

mod bars;
mod copy;
mod draw;
mod figures;
mod inks;
mod keys;
mod plan;
mod screen;
mod state;
mod strip;
mod table;

use super::live_state::LiveStates;
use super::stop::Stop;
use copy::{Detail, Glance, Row};
use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use draw::Picture;
use jiff::Timestamp;
use keys::{Input, Keys};
use plan::Plan;
use screen::Screen;
use std::io;
use std::time::{Duration, Instant};

/// Between two looks at the live states: five pictures a second at most.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// A key is answered sooner; a key held down is not answered more often than this.
const ANSWER_AFTER: Duration = Duration::from_millis(50);
/// How soon the end of the run is noticed.
const GLANCE: Duration = Duration::from_millis(100);

/// What the keys have set.
#[derive(Debug, Default, PartialEq, Eq)]
struct View {
    /// Which path is shown below the table.
    selected: usize,
    /// Whether the help line is shown.
    help: bool,
    /// How often the end was asked for.
    asked: u32,
}

/// Whether a key changed what is to be shown, and whether it asks for the end.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Nothing,
    Redraw,
    End,
}

impl View {
    /// In raw mode Ctrl-C arrives as a key like any other.
    fn key(&mut self, key: KeyEvent, paths: usize) -> Answer {
        if key.kind == KeyEventKind::Release {
            return Answer::Nothing;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c' | 'C') if control => self.end(),
            KeyCode::Char('q' | 'Q') if !control => self.end(),
            KeyCode::Char('?') => {
                self.help = !self.help;
                Answer::Redraw
            }
            KeyCode::Char('l' | 'L') if control => Answer::Redraw,
            KeyCode::Up => self.select(self.selected.saturating_sub(1)),
            KeyCode::Down => self.select((self.selected + 1).min(paths.saturating_sub(1))),
            KeyCode::Tab if paths > 0 => self.select((self.selected + 1) % paths),
            KeyCode::BackTab if paths > 0 => self.select((self.selected + paths - 1) % paths),
            KeyCode::Home => self.select(0),
            KeyCode::End => self.select(paths.saturating_sub(1)),
            _ => Answer::Nothing,
        }
    }

    fn end(&mut self) -> Answer {
        self.asked += 1;
        Answer::End
    }

    fn select(&mut self, path: usize) -> Answer {
        self.selected = path;
        Answer::Redraw
    }
}

/// Shows the run until it is over.
pub(super) fn run(
    labels: &[&str],
    live: &LiveStates,
    stop: &Stop,
    over: impl Fn() -> bool,
) -> io::Result<()> {
    let mut screen = Screen::enter()?;
    let keys = Keys::start()?;
    let started = Instant::now();
    let coloured = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let mut view = View::default();
    let mut drawn: Option<(Instant, Glance)> = None;
    let mut dirty = true;
    let mut last_area = None;
    while !over() {
        let wait = if dirty { ANSWER_AFTER } else { GLANCE };
        for event in keys.wait(wait) {
            match event {
                Input::Event(Event::Key(key)) => match view.key(key, labels.len()) {
                    Answer::Nothing => {}
                    Answer::Redraw => dirty = true,
                    Answer::End => {
                        stop.ask();
                        dirty = true;
                    }
                },
                Input::Event(Event::Resize(..)) => dirty = true,
                Input::Event(_) => {}
                Input::Gone => {
                    // Nobody looks any more, and nobody could end the run: it ends in order.
                    stop.ask();
                    return Ok(());
                }
            }
        }
        if Screen::was_left() {
            return Err(io::Error::other("another thread of this process failed"));
        }
        let age = drawn.as_ref().map_or(Duration::MAX, |(at, _)| at.elapsed());
        if age < if dirty { ANSWER_AFTER } else { LOOK_EVERY } {
            continue;
        }
        // Where signals do not tell, the size does.
        let area = screen.area()?;
        dirty |= last_area.replace(area) != Some(area);
        let glance = Glance::of(live);
        // The clock and the strip move on once a second, whatever the samples do.
        let same =
            drawn.as_ref().is_some_and(|(_, before)| *before == glance) && age < Duration::from_secs(1);
        if same && !dirty {
            continue;
        }
        let plan = Plan::new(area, labels, &glance.errors, &view);
        let rows = plan.rows.clone().map(|path| Row::of(live, path)).collect();
        let detail = Detail::of(live, view.selected, &plan);
        let now_s = Timestamp::now().as_second();
        let picture = Picture {
            labels,
            glance: &glance,
            view: &view,
            plan: &plan,
            rows,
            detail,
            elapsed: started.elapsed(),
            now_s,
            coloured,
        };
        screen.draw(|frame| picture.draw(frame))?;
        drawn = Some((Instant::now(), glance));
        dirty = false;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
