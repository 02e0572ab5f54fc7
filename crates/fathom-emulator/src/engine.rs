//! The loop: what hosts send goes into the world with its time, what is due comes out of it on time.
//!
//! One thread. Waiting for the moment of a packet is sleeping until shortly before and then spinning, with an eye on what
//! hosts send meanwhile. Never with a real-time priority: the kernel takes the processor from such a thread when it spins.

use crate::error::warn;
use crate::freeze::FreezeSender;
use crate::hosts::{self, HostDevice};
use crate::truth::TruthLog;
use crate::waiting::{Wait, Window};
use fathom_core::histogram::Histogram;
use fathom_fabric::event::Event;
use fathom_fabric::id::HostId;
use fathom_fabric::world::{Output, Status, World};
use fathom_os::clock::mono_ns;
use fathom_os::reactor::{Reactor, Waker, is_own};
use mio::unix::SourceFd;
use mio::{Events, Interest, Token};
use std::collections::VecDeque;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};

/// So shortly before a packet is due nothing else is begun: a look at the devices takes up to a microsecond.
const GUARD_NS: u64 = 2_000;
/// Buffers that are kept for packets to come.
const POOL: usize = 4_096;

/// What others ask of the loop.
#[derive(Debug)]
pub(crate) enum Command {
    /// Make this happen now.
    Event(Box<Event>, Sender<Result<(), String>>),
    /// Say how it is.
    Status(Sender<Box<Snapshot>>),
    /// End.
    Stop,
}

/// How the loop is doing.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    pub(crate) world: Status,
    pub(crate) tally: Tally,
    /// For how long a hybrid wait spins now, ns.
    pub(crate) window_ns: u64,
}

/// What the loop counted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    /// Multicast and broadcast packets, which kernels send unasked; the fabric has none.
    pub(crate) ignored: u64,
    /// Packets that a host's device did not take.
    pub(crate) refused: u64,
    /// Records that the disk was too slow for.
    pub(crate) lost_records: u64,
    /// When a packet was handed to its host, minus when it was due, ns.
    pub(crate) lateness: Histogram,
}

/// The loop and what it works on.
pub(crate) struct Engine {
    world: World,
    hosts: Vec<HostDevice>,
    reactor: Reactor,
    wait: Wait,
    window: Window,
    commands: Receiver<Command>,
    log: Option<TruthLog>,
    freezes: FreezeSender,
    out: Output,
    /// Hosts of which there may be more to read, each once.
    ready: VecDeque<usize>,
    is_ready: Vec<bool>,
    pool: Vec<Vec<u8>>,
    buffer: usize,
    stamps: Vec<u64>,
    tally: Tally,
}

impl Engine {
    /// `hosts` in the order of the world's.
    pub(crate) fn new(
        world: World,
        hosts: Vec<HostDevice>,
        (wait, window): (Wait, Window),
        commands: Receiver<Command>,
        (log, freezes): (Option<TruthLog>, FreezeSender),
        buffer: usize,
    ) -> io::Result<Self> {
        let reactor = Reactor::new()?;
        for (index, host) in hosts.iter().enumerate() {
            reactor.registry().register(
                &mut SourceFd(&host.tun.as_raw_fd()),
                Token(index),
                Interest::READABLE,
            )?;
        }
        let is_ready = vec![false; hosts.len()];
        Ok(Self {
            world,
            hosts,
            reactor,
            wait,
            window,
            commands,
            log,
            freezes,
            out: Output::default(),
            ready: VecDeque::with_capacity(is_ready.len()),
            is_ready,
            pool: Vec::new(),
            buffer,
            stamps: Vec::new(),
            tally: Tally::default(),
        })
    }

    /// What wakes the loop after a command was sent to it.
    pub(crate) fn waker(&self) -> Waker {
        self.reactor.waker()
    }

    /// Runs until it is told to stop, or nobody is left who could tell it.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(256);
        self.world.start(mono_ns());
        loop {
            let now_ns = mono_ns();
            if self.world.next_due_ns().is_some_and(|due_ns| due_ns <= now_ns) {
                self.world.advance(now_ns, &mut self.out);
                self.hand_over();
                continue;
            }
            if let Some(index) = self.ready.pop_front() {
                self.take_in(index);
                continue;
            }
            self.rest(now_ns, &mut events)?;
            let mut asked = false;
            for event in &events {
                let index = event.token().0;
                if is_own(event.token()) {
                    asked = true;
                } else if !std::mem::replace(&mut self.is_ready[index], true) {
                    self.ready.push_back(index);
                }
            }
            if asked && self.run_commands() {
                hosts::close(self.hosts);
                return Ok(());
            }
        }
    }

    /// Waits for a packet, a command or the due time.
    fn rest(&mut self, now_ns: u64, events: &mut Events) -> io::Result<()> {
        let due_ns = self.world.next_due_ns();
        let left_ns = due_ns.map(|due_ns| due_ns.saturating_sub(now_ns));
        if self.wait != Wait::Sleep
            && let (Some(due_ns), Some(..=GUARD_NS)) = (due_ns, left_ns)
        {
            while mono_ns() < due_ns {
                std::hint::spin_loop();
            }
            events.clear();
            return Ok(());
        }
        let window_ns = self.window.ns();
        let sleep_to_ns = match self.wait {
            Wait::Spin => return self.reactor.wait(events, None, true),
            Wait::Hybrid if left_ns.is_some_and(|left_ns| left_ns <= window_ns) => {
                return self.reactor.wait(events, None, true);
            }
            Wait::Hybrid => due_ns.map(|due_ns| due_ns.saturating_sub(window_ns)),
            Wait::Sleep => due_ns,
        };
        if let Some(log) = &mut self.log {
            self.tally.lost_records += log.send();
        }
        self.reactor.wait(events, sleep_to_ns, false)?;
        if let Some(sleep_to_ns) = sleep_to_ns
            && let Some(late_ns) = mono_ns().checked_sub(sleep_to_ns)
            && events.iter().all(|event| is_own(event.token()))
        {
            self.window.slept(late_ns);
        }
        Ok(())
    }

    /// Takes in one packet of a host, and comes back to the host until it has no more.
    fn take_in(&mut self, index: usize) {
        let mut packet = self.pool.pop().unwrap_or_else(|| Vec::with_capacity(self.buffer));
        match self.hosts[index].tun.read(&mut packet) {
            Ok(true) => {
                self.ready.push_back(index);
                if is_for_many(&packet) {
                    self.tally.ignored += 1;
                    self.keep(packet);
                    return;
                }
                let host = HostId(index as u32);
                self.world.packet_in(mono_ns(), host, packet, &mut self.out);
                self.hand_over();
            }
            Ok(false) => {
                self.is_ready[index] = false;
                self.keep(packet);
            }
            // Its device was taken away or down; whoever did that wants to know why the host is silent.
            Err(e) => {
                self.is_ready[index] = false;
                warn(format_args!(
                    "host {} cannot send: {e}; was its device deleted?",
                    self.hosts[index].name
                ));
            }
        }
    }

    /// Gives hosts what is due for them, and the log what happened.
    fn hand_over(&mut self) {
        self.stamps.clear();
        for delivery in self.out.deliveries.drain(..) {
            let tun = &self.hosts[delivery.host.0 as usize].tun;
            let out_ns = mono_ns();
            if tun.write(delivery.packet.bytes()).is_err() {
                self.tally.refused += 1;
            }
            self.tally.lateness.record(out_ns.wrapping_sub(delivery.due_ns) as i64);
            self.stamps.push(out_ns);
            let mut bytes = delivery.packet.into_bytes();
            if self.pool.len() < POOL && bytes.capacity() >= self.buffer {
                bytes.clear();
                self.pool.push(bytes);
            }
        }
        for truth in &self.out.truths {
            self.freezes.observe(truth);
        }
        if let Some(log) = &mut self.log {
            self.tally.lost_records += log.take(&mut self.out, &self.stamps);
        }
        self.out.clear();
    }

    fn keep(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        self.pool.push(buffer);
    }

    /// Does what others asked; true where that is to end.
    fn run_commands(&mut self) -> bool {
        loop {
            match self.commands.try_recv() {
                Ok(Command::Event(event, answer)) => {
                    let done = self.world.event(mono_ns(), &event, &mut self.out);
                    self.hand_over();
                    // Who asked may have gone.
                    let _ = answer.send(done);
                }
                Ok(Command::Status(answer)) => {
                    let snapshot = Snapshot {
                        world: self.world.status(),
                        tally: self.tally.clone(),
                        window_ns: self.window.ns(),
                    };
                    let _ = answer.send(Box::new(snapshot));
                }
                Ok(Command::Stop) | Err(TryRecvError::Disconnected) => return true,
                Err(TryRecvError::Empty) => return false,
            }
        }
    }
}

/// Whether a packet goes to a group (or all): multicast, RFC 5771 and RFC 4291 section 2.7, or IPv4's limited broadcast.
fn is_for_many(packet: &[u8]) -> bool {
    match packet.first().map(|first| first >> 4) {
        Some(4) => {
            packet.get(16).is_some_and(|&first| first >> 4 == 0xe || packet[16..].starts_with(&[255; 4]))
        }
        Some(6) => packet.get(24) == Some(&0xff),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::is_for_many;

    #[test]
    fn only_what_goes_to_many_is_passed_over() {
        let v4 = |destination: [u8; 4]| [&[0x45; 16][..], &destination].concat();
        let v6 = |first: u8| [&[0x60; 24][..], &[first; 16]].concat();
        assert!(is_for_many(&v4([224, 0, 0, 22])) && is_for_many(&v4([255; 4])) && is_for_many(&v6(0xff)));
        assert!(
            !is_for_many(&v4([10, 0, 0, 255]))
                && !is_for_many(&v4([240, 0, 0, 1]))
                && !is_for_many(&v6(0xfd))
        );
        assert!(!is_for_many(&[]) && !is_for_many(&[0x45]) && !is_for_many(&[0x60]));
    }
}
