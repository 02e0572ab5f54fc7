//! The terminal itself: taken over for the view, and given back however the view ends.

use crossterm::cursor::Show;
use crossterm::execute;
use crossterm::terminal::{Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen};
use crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;
use ratatui::{Frame, Terminal};
use std::io::{self, BufWriter, Stdout, stdout};
use std::mem::ManuallyDrop;
use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the terminal is ours at the moment. There is one terminal to a process, so this is one to a process.
static TAKEN: AtomicBool = AtomicBool::new(false);
static HOOK: Once = Once::new();

/// The terminal, in raw mode and on its alternate screen, until dropped.
pub(super) struct Screen {
    /// Never dropped: ratatui would write to a terminal that may have gone away, and panic about it. [`leave`] does what is to be
    /// done.
    terminal: ManuallyDrop<Terminal<CrosstermBackend<BufWriter<Stdout>>>>,
}

impl Screen {
    pub(super) fn enter() -> io::Result<Self> {
        // A panic in any thread first gives the terminal back, so that its message can be read.
        HOOK.call_once(|| {
            let before = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                leave();
                before(info);
            }));
        });
        enable_raw_mode()?;
        TAKEN.store(true, Ordering::SeqCst);
        // Not `terminal.clear()`: that asks the terminal where its cursor is, and crossterm waits for ever where it is gone.
        let entered = execute!(stdout(), EnterAlternateScreen, Clear(ClearType::All))
            .and_then(|()| Terminal::new(CrosstermBackend::new(BufWriter::with_capacity(1 << 15, stdout()))))
            .map(ManuallyDrop::new)
            .and_then(|mut terminal| terminal.hide_cursor().map(|()| Self { terminal }));
        if entered.is_err() {
            leave();
        }
        entered
    }

    /// How large it is now.
    pub(super) fn area(&mut self) -> io::Result<Rect> {
        self.terminal.autoresize()?;
        Ok(self.terminal.get_frame().area())
    }

    pub(super) fn draw(&mut self, picture: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(picture).map(|_| ())
    }

    /// Whether a panic elsewhere has given the terminal back already.
    pub(super) fn was_left() -> bool {
        !TAKEN.load(Ordering::SeqCst)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
    }
}

/// Gives the terminal back, once. A terminal that no longer answers cannot be given back any better.
fn leave() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        let _ = execute!(stdout(), LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
}
