//! How a path is, in a word.

use crate::probe::live_state::LiveState;
use fathom_core::units::narrow as figures;

/// How a path is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Ok,
    /// So many connections of so many wait for an echo that does not come.
    Stalled(u32, u32),
    NotConnected,
}

impl State {
    pub(super) fn of(state: &LiveState) -> Self {
        match (state.open, state.stalled) {
            (0, _) => Self::NotConnected,
            (open, stalled) if stalled > 0 => Self::Stalled(stalled, open),
            _ => Self::Ok,
        }
    }

    pub(super) fn text(self) -> String {
        match self {
            Self::Ok => "ok".to_owned(),
            Self::Stalled(1, 1) => "STALLED".to_owned(),
            Self::Stalled(stalled, open) => {
                format!("STALLED {}/{}", figures::count(stalled.into()), figures::count(open.into()))
            }
            Self::NotConnected => "not connected".to_owned(),
        }
    }
}
