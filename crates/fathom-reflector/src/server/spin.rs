//! What `--spin` does between two looks at what the kernel tells: it tries to read.

use super::{FIRST_SOCKET, Server, interest};
use crate::connection::Turn;
use mio::Token;

/// With `--spin`, so many connections at most are tried without asking the kernel which has something...
const SPUN_ON: u32 = 4;
/// ...until so many tries have found nothing...
const SPINS_A_TURN: u32 = 64;
/// ...or so many have found something: then it is asked for anything else, right after an echo has gone, when the next message
/// has not come yet.
const SPUN_MESSAGES_A_TURN: u32 = 16;
/// Where it is known what it saves that the kernel does not tell of those, and that nothing is lost by it (epoll(7)).
const LEAVES_POLL: bool = cfg!(target_os = "linux");

impl Server {
    /// With `--spin`, tries the connections themselves for a while: asking the kernel which of them has something costs as
    /// much as the read. Not while there are datagrams, which would wait for it.
    pub(super) fn spin_on(&mut self) {
        let spins = (1..=SPUN_ON).contains(&self.open) && self.datagrams.active_ns.is_none();
        if !spins && self.untold == 0 {
            return;
        }
        // None comes meanwhile, and slots stay when many connections have gone.
        let open = self.slots.iter().enumerate().filter(|(_, slot)| slot.is_some());
        let open: Vec<usize> = open.map(|(slot, _)| slot).collect();
        for &slot in &open {
            self.tell_of(slot, spins);
        }
        let at_most = match (spins, self.unfinished.is_empty()) {
            (true, true) => SPINS_A_TURN,
            // Those that are not told of have their turn beside them.
            (true, false) => 1,
            (false, _) => 0,
        };
        let (mut tries, mut messages) = (0, 0);
        while tries < at_most && messages < SPUN_MESSAGES_A_TURN {
            tries += 1;
            for &slot in &open {
                let Some(connection) = &mut self.slots[slot] else { continue };
                // Only where something came is it served: a try that finds nothing is to be as short as it can.
                if let Some(read) = connection.try_read(&mut self.shared) {
                    self.serve_connection(slot, Token(FIRST_SOCKET + self.sockets.len() + slot), Some(read));
                    (tries, messages) = (0, messages + 1);
                }
            }
        }
    }

    /// Has the kernel tell the loop of a connection, or not where it is tried all the time: it would tell of each message before
    /// that can be read. That there is room again to write is not found by trying.
    fn tell_of(&mut self, slot: usize, tried: bool) {
        let token = Token(FIRST_SOCKET + self.sockets.len() + slot);
        let Some(connection) = &mut self.slots[slot] else { return };
        let told = !tried || !connection.holds_nothing() || !LEAVES_POLL;
        if std::mem::replace(&mut connection.told, told) == told {
            return;
        }
        let registry = self.poll.registry();
        if !told {
            self.untold += 1;
            let _ = registry.deregister(connection.stream());
            return;
        }
        self.untold -= 1;
        if registry.register(connection.stream(), token, interest()).is_err() {
            self.after_turn(slot, &Turn::Failed);
        }
    }
}
