//! The live view. It runs in its own thread, looks at the live states a few times a second, holds their lock only to copy
//! out what it is about to draw, and draws only when something has changed.

mod bars;
mod copy;
mod draw;
mod inks;
mod keys;
mod names;
mod order;
mod plan;
mod screen;
mod state;
mod strip;
mod table;
mod view;

use super::live_state::{LiveStates, lock};
use super::stop::Stop;
use copy::Glance;
use crossterm::event::Event;
use draw::Picture;
use fathom_os::clock::mono_ns;
use jiff::Timestamp;
use keys::{Input, Keys};
use plan::Plan;
use screen::Screen;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use view::{Answer, View};

/// Between two looks at the live states: five pictures a second at most.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// A key is answered sooner; a key held down is not answered more often than this.
const ANSWER_AFTER: Duration = Duration::from_millis(50);
/// How soon the end of the run is noticed.
const GLANCE: Duration = Duration::from_millis(100);

/// When a picture is of.
#[derive(Debug, Clone, Copy)]
struct Moment {
    /// Since the view began.
    elapsed: Duration,
    /// Seconds since the Unix epoch.
    now_s: i64,
    /// The same moment by the monotonic clock, ns.
    mono_ns: u64,
}

/// What is shown while the display stands still: the run goes on without it.
struct Still {
    live: LiveStates,
    moment: Moment,
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
    let mut still: Option<Still> = None;
    let mut drawn: Option<(Instant, Glance)> = None;
    let mut sorted: Option<Instant> = None;
    let mut dirty = true;
    let mut last_area = None;
    while !over() {
        let wait = if dirty { ANSWER_AFTER } else { GLANCE };
        for event in keys.wait(wait) {
            match event {
                Input::Event(Event::Key(key)) => {
                    let answer = view.key(key, labels.len());
                    dirty |= answer != Answer::Nothing;
                    match answer {
                        Answer::Nothing | Answer::Redraw => {}
                        Answer::Reset => reset(live),
                        Answer::End => stop.ask(),
                    }
                }
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
        let now =
            Moment { elapsed: started.elapsed(), now_s: Timestamp::now().as_second(), mono_ns: mono_ns() };
        still = match (view.paused, still) {
            (true, None) => Some(Still { live: copied(live), moment: now }),
            (true, still) => still,
            (false, _) => None,
        };
        let (shown, moment) = still.as_ref().map_or((live, now), |still| (&still.live, still.moment));
        let glance = Glance::of(shown, live);
        // The clock and the strip move on once a second, whatever the samples do; a display that stands still does not.
        let same = drawn.as_ref().is_some_and(|(_, before)| *before == glance)
            && (view.paused || age < Duration::from_secs(1));
        if same && !dirty {
            continue;
        }
        // Rows do not change places faster than people read them.
        if dirty || sorted.is_none_or(|at| at.elapsed() >= Duration::from_secs(1)) {
            view.order = order::order(labels, &order::Figures::of(shown, view.sort), view.sort);
            sorted = Some(Instant::now());
        }
        let plan = Plan::new(area, labels, &glance.errors, &view);
        let picture = Picture::of(shown, moment, labels, &glance, &view, &plan, coloured);
        let fit_s = picture.fit_s();
        screen.draw(|frame| picture.draw(frame))?;
        view.fit_s = fit_s;
        drawn = Some((Instant::now(), glance));
        dirty = false;
    }
    Ok(())
}

/// The figures that are shown begin anew; those of the run, of its summary and its recording do not.
fn reset(live: &LiveStates) {
    let now = Timestamp::now();
    for state in lock(live).iter_mut() {
        state.reset(now);
    }
}

/// The live states as they are now, for a display that stands still.
fn copied(live: &LiveStates) -> LiveStates {
    Arc::new(Mutex::new(lock(live).clone()))
}

#[cfg(test)]
mod tests;
