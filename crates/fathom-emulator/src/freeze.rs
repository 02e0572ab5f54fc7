//! Frozen hosts: the processes that `fathom fabric exec` started on them are stopped (SIGSTOP) for as long as a freeze or
//! a pause lasts, and go on after it (SIGCONT), as those of a virtual machine do that is moved.
//!
//! The loop only passes the message on; a thread looks for the processes, which takes it some milliseconds. What is started
//! on a frozen host runs, and its packets are held.

use crate::directory::FabricState;
use crate::error::{Error, warn};
use crate::processes::own_processes;
use fathom_fabric::truth::Truth;
use fathom_os::peer::Peer;
use std::collections::BTreeMap;
use std::sync::mpsc::{Sender, channel};
use std::thread;

/// A message to the thread.
enum Message {
    /// From here on the host is frozen, or no longer is on this account.
    Host { name: String, frozen: bool },
    /// Everything runs again, for good.
    End,
}

/// The loop's end: sends on what freezes hosts.
pub(crate) struct FreezeSender(Sender<Message>);

impl FreezeSender {
    /// Sends on what freezes a host or lets it run.
    pub(crate) fn observe(&self, truth: &Truth) {
        if let Some(frozen) = truth.stands_still() {
            // The thread ends before the loop does.
            let _ = self.0.send(Message::Host { name: truth.place.clone(), frozen });
        }
    }
}

/// The thread, and how to end it.
pub(crate) struct Freezer {
    messages: Sender<Message>,
    thread: thread::JoinHandle<()>,
}

impl Freezer {
    /// Lets everything run again. When this returns it does.
    pub(crate) fn end(self) {
        let _ = self.messages.send(Message::End);
        // A panic there has been told on standard error.
        let _ = self.thread.join();
    }
}

/// Starts the thread for the hosts of a fabric that has been made.
pub(crate) fn start(state: &FabricState) -> Result<(FreezeSender, Freezer), Error> {
    let (messages, received) = channel();
    let state = state.clone();
    let keep = move || {
        let mut hosts: BTreeMap<String, FrozenHost> = BTreeMap::new();
        while let Ok(Message::Host { name, frozen }) = received.recv() {
            let host = hosts.entry(name.clone()).or_default();
            host.reasons = if frozen { host.reasons + 1 } else { host.reasons.saturating_sub(1) };
            match (host.reasons, frozen) {
                (1, true) => host.stop(&state, &name),
                (0, false) => host.go_on(),
                // Another event freezes it too.
                _ => {}
            }
        }
        hosts.values_mut().for_each(FrozenHost::go_on);
    };
    let thread =
        thread::Builder::new().name("freeze".to_owned()).spawn(keep).map_err(|e| Error::thread(&e))?;
    Ok((FreezeSender(messages.clone()), Freezer { messages, thread }))
}

#[derive(Default)]
struct FrozenHost {
    /// How many events freeze it.
    reasons: u32,
    stopped: Vec<Peer>,
}

impl FrozenHost {
    fn stop(&mut self, state: &FabricState, name: &str) {
        let (held, _) = own_processes(state, |process| process.host == name);
        for (process, peer) in held {
            match peer.stand_still() {
                Ok(()) => self.stopped.push(peer),
                Err(e) => warn(format_args!("{process} runs on while its host is frozen: {e}")),
            }
        }
    }

    fn go_on(&mut self) {
        for peer in self.stopped.drain(..) {
            let _ = peer.go_on();
        }
    }
}
