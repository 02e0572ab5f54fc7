//! A connection that is back to back, and the only one that is, gets a thread that waits in its reads.
//!
//! Through the event loop a message takes a wait, a read and a write, and a client that waits for each echo measures the
//! wait with it. So such a connection leaves the loop for as long as it goes on like that: the loop serves all others
//! meanwhile, and gets it back as soon as it is silent, has ended or is not read by its peer.

use crate::connection::{Connection, Shared, Turn};
use mio::{Token, Waker};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// So many turns in which the kernel told of this connection and nothing else...
const TURNS: u32 = 256;
/// ...within this time: a thousand a second.
const WITHIN_NS: u64 = 256_000_000;
/// A connection that has been silent for so long is given back.
const SILENCE: Duration = Duration::from_millis(10);

/// Turns in a row that were one connection's.
#[derive(Debug, Default)]
pub(crate) struct Streak {
    token: Option<Token>,
    turns: u32,
    since_ns: u64,
}

impl Streak {
    /// Takes note of a turn: whose it was, `None` where more than one had something. True where its connection is back
    /// to back, once for each streak.
    pub(crate) fn goes_on(&mut self, token: Option<Token>, now_ns: u64) -> bool {
        if token.is_none() || token != self.token {
            *self = Self { token, turns: 0, since_ns: now_ns };
        }
        self.turns += 1;
        if token.is_none() || self.turns < TURNS {
            return false;
        }
        let quick = now_ns.saturating_sub(self.since_ns) < WITHIN_NS;
        *self = Self::default();
        quick
    }
}

/// What comes back.
pub(crate) struct Returned {
    pub(crate) connection: Connection,
    /// Why: `Waiting` where it goes on in the loop.
    pub(crate) turn: Turn,
    /// What it counted.
    pub(crate) shared: Shared,
}

/// A connection that is away in its thread.
#[derive(Debug)]
pub(crate) struct Alone {
    pub(crate) slot: usize,
    thread: JoinHandle<Returned>,
    flags: Arc<Flags>,
}

#[derive(Debug, Default)]
struct Flags {
    stop: AtomicBool,
    /// The thread has nothing more to do. (A finished thread would be known as such only after it has woken the loop.)
    done: AtomicBool,
}

impl Alone {
    /// Sends a connection away; it stays where the system has no such reads or no thread. `shared` is the thread's own.
    pub(crate) fn start(
        slot: usize,
        connection: &mut Option<Connection>,
        shared: Shared,
        waker: Arc<Waker>,
    ) -> io::Result<Option<Self>> {
        let Some(away) = connection else { return Ok(None) };
        if !away.let_reads_wait(SILENCE)? {
            return Ok(None);
        }
        // Through a channel, so that the connection is still here if there is no thread for it.
        let (hand_over, handed) = std::sync::mpsc::sync_channel::<Connection>(1);
        let flags = Arc::new(Flags::default());
        let told = Arc::clone(&flags);
        let thread = std::thread::Builder::new().name("alone".to_owned()).spawn(move || {
            let mut shared = shared;
            let Ok(mut connection) = handed.recv() else { unreachable!("it is handed over right after") };
            let mut turn = Turn::Unfinished;
            while turn == Turn::Unfinished && !told.stop.load(Ordering::Relaxed) {
                shared.clock.observe(connection.active_ns);
                // By when it was last active, so that it costs no reading of a clock.
                let until_ns = connection.active_ns + SILENCE.as_nanos() as u64;
                shared.clock.rests(connection.active_ns, Some(until_ns));
                turn = connection.wait_turn(&mut shared);
            }
            told.done.store(true, Ordering::Release);
            // If it cannot be woken, the loop sees the flag at its next turn.
            let _ = waker.wake();
            Returned { connection, turn, shared }
        })?;
        if let Some(away) = connection.take() {
            // It waits for this.
            let _ = hand_over.send(away);
        }
        Ok(Some(Self { slot, thread, flags }))
    }

    /// Takes the connection back: at once where the thread is done, else when it has seen that it shall stop.
    pub(crate) fn take_back(self) -> Option<Returned> {
        self.flags.stop.store(true, Ordering::Relaxed);
        self.thread.join().ok()
    }

    pub(crate) fn is_back(&self) -> bool {
        self.flags.done.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_quick_streak_of_one_connection_counts() {
        let turn_ns = WITHIN_NS / u64::from(TURNS) / 2;
        let (a, b) = (Some(Token(7)), Some(Token(8)));
        let run = |turns: &[(Option<Token>, u32, u64)]| {
            let (mut streak, mut now, mut told) = (Streak::default(), 1, 0);
            for &(token, count, every_ns) in turns {
                for _ in 0..count {
                    now += every_ns;
                    told += u32::from(streak.goes_on(token, now));
                }
            }
            told
        };
        assert_eq!(run(&[(a, TURNS - 1, turn_ns)]), 0);
        assert_eq!(run(&[(a, TURNS, turn_ns)]), 1);
        assert_eq!(run(&[(a, 2 * TURNS, turn_ns)]), 2);
        assert_eq!(run(&[(a, 2 * TURNS, 3 * turn_ns)]), 0, "too slow");
        assert_eq!(run(&[(a, TURNS - 1, turn_ns), (b, 1, turn_ns), (a, TURNS - 1, turn_ns)]), 0, "another");
        assert_eq!(run(&[(None, 2 * TURNS, turn_ns)]), 0, "several at once");
    }
}
