//! The places of sessions: each client has one. If all are taken, a silent session that has not logged in gives its
//! place to a new client. Clients of SQL Server speak first, and at once.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A session that has said nothing gives way after this time. A client's first packet comes with its handshake's end.
const SILENT_NS: u64 = 200_000_000;
/// A session that has not logged in gives way after this time without more data.
const STUCK_NS: u64 = 1_000_000_000;

/// State shared by the accepting thread and a session's thread.
#[derive(Debug)]
pub(super) struct Place {
    began_ns: u64,
    /// Time of the last data; 0: none yet.
    came_ns: AtomicU64,
    has_login: AtomicBool,
    is_lost: AtomicBool,
}

impl Place {
    pub(super) fn new(now_ns: u64) -> Self {
        let (came_ns, has_login, is_lost) =
            (AtomicU64::new(0), AtomicBool::new(false), AtomicBool::new(false));
        Self { began_ns: now_ns, came_ns, has_login, is_lost }
    }

    /// Notes that data came.
    pub(super) fn comes(&self, now_ns: u64) {
        self.came_ns.store(now_ns, Ordering::Relaxed);
    }

    /// Notes the login: the place is kept from now on.
    pub(super) fn logs_in(&self) {
        self.has_login.store(true, Ordering::Relaxed);
    }

    /// True if another client has the place now, so that the session must end.
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }

    /// True if the place may be given to another client.
    fn may_go(&self, now_ns: u64) -> bool {
        let came_ns = self.came_ns.load(Ordering::Relaxed);
        let silent_ns = now_ns.saturating_sub(self.began_ns.max(came_ns));
        let patience_ns = if came_ns == 0 { SILENT_NS } else { STUCK_NS };
        !self.has_login.load(Ordering::Relaxed) && silent_ns >= patience_ns
    }

    /// Gives one of these places, which are in the order in which they were taken, to a new client. Returns its index.
    pub(super) fn give<'a>(places: impl Iterator<Item = &'a Self>, now_ns: u64) -> Option<usize> {
        let (at, place) = places.enumerate().find(|(_, place)| place.may_go(now_ns))?;
        place.is_lost.store(true, Ordering::Relaxed);
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn oldest_silent_place_is_given_away() {
        let places: Vec<Place> = (1..=4).map(|second| Place::new(second * S)).collect();
        let give = |now_ns| Place::give(places.iter(), now_ns);
        assert_eq!(give(S), None, "a client may yet speak");
        // The first client has logged in and may be idle for ever; the second is about to log in.
        places[0].comes(S + 1);
        places[0].logs_in();
        places[1].comes(4 * S);
        assert_eq!(give(4 * S), Some(2));
        assert!(places[2].is_lost() && !places[0].is_lost());
        assert_eq!(give(4 * S + SILENT_NS), Some(2), "who takes the places takes it out");
        assert_eq!(Place::give(places[..2].iter(), 5 * S - 1), None);
        assert_eq!(Place::give(places[..2].iter(), 5 * S), Some(1), "half a login");
    }
}
