//! Hosts that stand still: the processes that `fathom fabric exec` started on them are stopped (SIGSTOP) for as long as a
//! freeze or a pause lasts, and go on after it (SIGCONT), as those of a virtual machine do that is moved.
//!
//! The loop only passes the word on; a thread looks for the processes, which takes it some milliseconds. What is started
//! on a host while it stands still runs, and its packets are held.

use super::place::State;
use super::sweep;
use crate::exit::Failure;
use fathom_fabric::truth::Truth;
use fathom_os::peer::Peer;
use std::collections::BTreeMap;
use std::sync::mpsc::{Sender, channel};
use std::thread;

/// What the thread is told.
enum Word {
    /// From here on the host stands still, or no longer does on this account.
    Host { name: String, still: bool },
    /// Everything runs again, for good.
    End,
}

/// The loop's end: hears what happens to hosts.
pub(super) struct Warden(Sender<Word>);

impl Warden {
    /// Passes on what makes a host stand still or run.
    pub(super) fn heed(&self, truth: &Truth) {
        if let Some(still) = truth.stands_still() {
            // The thread ends before the loop does.
            let _ = self.0.send(Word::Host { name: truth.place.clone(), still });
        }
    }
}

/// The thread, and how to end it.
pub(super) struct Stillness {
    words: Sender<Word>,
    thread: thread::JoinHandle<()>,
}

impl Stillness {
    /// Lets everything run again. When this returns it does.
    pub(super) fn end(self) {
        let _ = self.words.send(Word::End);
        // A panic there has been told on standard error.
        let _ = self.thread.join();
    }
}

/// Starts the thread for the hosts of a fabric that has been made.
pub(super) fn start(state: &State) -> Result<(Warden, Stillness), Failure> {
    let (words, heard) = channel();
    let state = state.clone();
    let keep = move || {
        let mut hosts: BTreeMap<String, Host> = BTreeMap::new();
        while let Ok(Word::Host { name, still }) = heard.recv() {
            let host = hosts.entry(name.clone()).or_default();
            host.reasons = if still { host.reasons + 1 } else { host.reasons.saturating_sub(1) };
            match (host.reasons, still) {
                (1, true) => host.stop(&state, &name),
                (0, false) => host.go_on(),
                // Another event holds it still.
                _ => {}
            }
        }
        hosts.values_mut().for_each(Host::go_on);
    };
    let thread = thread::Builder::new()
        .name("still".to_owned())
        .spawn(keep)
        .map_err(|e| Failure::run(format!("cannot start a thread: {e}")))?;
    Ok((Warden(words.clone()), Stillness { words, thread }))
}

#[derive(Default)]
struct Host {
    /// How many events hold it still.
    reasons: u32,
    stopped: Vec<Peer>,
}

impl Host {
    fn stop(&mut self, state: &State, name: &str) {
        let (held, _) = sweep::hold(state, |resident| resident.host == name);
        for (resident, peer) in held {
            match peer.stand_still() {
                Ok(()) => self.stopped.push(peer),
                Err(e) => eprintln!("fathom: {resident} runs on while its host stands still: {e}"),
            }
        }
    }

    fn go_on(&mut self) {
        for peer in self.stopped.drain(..) {
            let _ = peer.go_on();
        }
    }
}
