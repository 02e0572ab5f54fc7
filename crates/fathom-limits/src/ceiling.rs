//! The driver of the search for the rate ceiling: sends the packets of each step when they are due, over some connections, and
//! counts what becomes of them. Which step is next `fathom_core::limits::CeilingSearch` decides.

use super::{Ticker, Way};
use fathom_core::event::EventKind;
use fathom_core::limits::{Ceiling, CeilingSearch, Step, Tally};
use fathom_os::clock::mono_ns;
use fathom_os::reactor::{self, Reactor};
use fathom_os::socket::{self, Segments};
use fathom_recording::Keeper;
use fathom_wire::{Checker, HEADER_LEN, Integrity, Key, Secret};
use mio::net::TcpStream;
use mio::{Events, Interest, Token};
use std::collections::VecDeque;
use std::io;

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;
/// A connection is to be established, and to answer, within this.
const OPENED_WITHIN_NS: u64 = 8 * S;
/// An echo is waited for so long after the end of a step.
const WAITED_NS: u64 = S;
/// From what became of a step to the next: a bucket fills again.
const REST_NS: u64 = S / 2;
/// The kernel is asked this often what it sent, at the ends of windows too.
const LOOK_EVERY_NS: u64 = 50 * MS;

/// Why it ended before its time.
#[derive(Debug)]
enum Ended {
    /// Somebody asked for it.
    Stopped,
    /// A connection broke, or does not echo.
    Broken(String),
}

#[derive(Debug)]
struct Packet {
    sequence: u64,
    due_ns: u64,
    sent_ns: u64,
}

#[derive(Debug)]
struct Line {
    socket: TcpStream,
    key: Key,
    next: u64,
    waiting: VecDeque<Packet>,
    checker: Checker,
    /// The rest of a packet of which the kernel took a part.
    rest: Vec<u8>,
    /// What the kernel said last of the segments that it sent.
    segments: Segments,
}

/// See the module.
#[derive(Debug)]
pub struct CeilingDriver<'a> {
    way: Way,
    reactor: Reactor,
    secret: Option<Secret>,
    lines: Vec<Line>,
    watch: &'a mut Ticker,
}

impl<'a> CeilingDriver<'a> {
    /// Who asks for an end wakes the reactor.
    pub fn new(way: Way, reactor: Reactor, secret: Option<Secret>, watch: &'a mut Ticker) -> Self {
        Self { way, reactor, secret, lines: Vec::new(), watch }
    }

    /// Opens so many connections; an error says why they cannot be used. One answers before the next begins.
    pub fn open(&mut self, connections: u32, session: u32) -> Result<(), String> {
        for connection in 0..connections {
            let begun = socket::connect_tcp(self.way.remote, &self.way.options).and_then(|mut socket| {
                let token = Token(connection as usize);
                let both = Interest::READABLE | Interest::WRITABLE;
                self.reactor.registry().register(&mut socket, token, both)?;
                Ok(socket)
            });
            let socket = begun.map_err(|e| format!("cannot connect: {e}"))?;
            let key = Key { session, connection };
            let (waiting, checker, rest) = (VecDeque::new(), Checker::default(), Vec::new());
            self.lines.push(Line {
                socket,
                key,
                next: 0,
                waiting,
                checker,
                rest,
                segments: Segments::default(),
            });
            self.answers(connection as usize)?;
        }
        Ok(())
    }

    /// Waits until a new connection is established and has echoed.
    fn answers(&mut self, line: usize) -> Result<(), String> {
        let until_ns = mono_ns() + OPENED_WITHIN_NS;
        let mut tally = Tally::new(Step { rate_per_s: 1, lasts_ns: S });
        let (mut established, mut sent) = (false, false);
        while mono_ns() < until_ns {
            if self.watch.is_to_stop() {
                return Err("ended before it began".to_owned());
            }
            if !established {
                established = socket::connect_result(&self.lines[line].socket).map_err(|e| e.to_string())?;
                let socket = &self.lines[line].socket;
                if established && socket.local_addr().is_ok_and(|local| local == self.way.remote) {
                    return Err("nobody listens there".to_owned());
                }
            }
            if established && !std::mem::replace(&mut sent, established) {
                self.send(line, 0, 0, &mut tally).map_err(|e| e.to_string())?;
            }
            if sent {
                self.read(line, 0, &mut tally)?;
                if self.lines[line].waiting.is_empty() {
                    return Ok(());
                }
            }
            let mut events = Events::with_capacity(16);
            self.reactor.wait(&mut events, Some(until_ns), false).map_err(|e| e.to_string())?;
        }
        Err("takes connections and sends nothing back; name the port of `fathom echo`, or of another echo server (RFC 862)".to_owned())
    }

    /// Runs to the end: what was found, and the recording. A step is in it once it is over, so that a kill takes one at the most.
    pub fn run(mut self, mut search: CeilingSearch, mut keeper: Keeper) -> io::Result<(Ceiling, Keeper)> {
        let began_ns = mono_ns();
        keeper.event(None, EventKind::CeilingBegan(search.asked()));
        for step in search.steps() {
            keeper.event(None, EventKind::CeilingStepped(Box::new(step.clone())));
        }
        while let Some(step) = search.step() {
            self.watch.step(mono_ns(), &search);
            match self.play(step)? {
                Ok(tally) => {
                    if let Some(stepped) = search.seen(tally.seen()) {
                        self.watch.stepped(stepped);
                        keeper.event(None, EventKind::CeilingStepped(Box::new(stepped.clone())));
                    }
                }
                Err(Ended::Stopped) => search.stop(None),
                Err(Ended::Broken(why)) => search.stop(Some(why)),
            }
            keeper.flush(mono_ns());
        }
        self.watch.clear();
        Ok((search.outcome(mono_ns() - began_ns), keeper))
    }

    /// One step, and the rest after it.
    fn play(&mut self, step: Step) -> io::Result<Result<Tally, Ended>> {
        let mut tally = Tally::new(step);
        let mut events = Events::with_capacity(256);
        let began_ns = mono_ns();
        self.count_segments(None, &mut tally);
        let (packets, mut next, mut look_ns) = (step.due_before(step.lasts_ns), 0, LOOK_EVERY_NS);
        loop {
            if self.watch.is_to_stop() {
                return Ok(Err(Ended::Stopped));
            }
            let mut now = mono_ns() - began_ns;
            while next < packets && step.due_ns(next) <= now {
                // What is sent from now on is of another window.
                if step.due_ns(next) >= look_ns {
                    self.count_segments(Some(look_ns - 1), &mut tally);
                    look_ns = (step.due_ns(next) / LOOK_EVERY_NS + 1) * LOOK_EVERY_NS;
                }
                let line = (next % self.lines.len() as u64) as usize;
                if let Err(error) = self.send(line, step.due_ns(next), began_ns, &mut tally) {
                    return Ok(Err(Ended::Broken(format!(
                        "a connection ended at {}/s: {error}",
                        step.rate_per_s
                    ))));
                }
                next += 1;
                now = mono_ns() - began_ns;
            }
            if now >= look_ns {
                self.count_segments(Some((look_ns - 1).min(step.lasts_ns - 1)), &mut tally);
                look_ns = (now / LOOK_EVERY_NS + 1) * LOOK_EVERY_NS;
            }
            let waits = self.lines.iter().any(|line| !line.waiting.is_empty());
            if next == packets && (!waits || now >= step.lasts_ns + WAITED_NS) && now >= step.lasts_ns {
                break;
            }
            let due_ns = if next < packets {
                step.due_ns(next)
            } else {
                step.lasts_ns + if waits { WAITED_NS } else { 0 }
            };
            self.reactor.wait(&mut events, Some(began_ns + due_ns.min(look_ns)), false)?;
            for event in events.iter().filter(|event| !reactor::is_own(event.token())) {
                if let Err(why) = self.read(event.token().0, began_ns, &mut tally) {
                    return Ok(Err(Ended::Broken(format!("{why} at {}/s", step.rate_per_s))));
                }
            }
        }
        self.count_segments(Some(step.lasts_ns - 1), &mut tally);
        Ok(self.rest(&mut events)?.map_or(Ok(tally), Err))
    }

    /// Waits for a while, and for what is still on its way, which belongs to no later step. Why it goes no
    /// further, if it does not.
    fn rest(&mut self, events: &mut Events) -> io::Result<Option<Ended>> {
        let mut unheard = Tally::new(Step { rate_per_s: 1, lasts_ns: S });
        let until_ns = mono_ns() + REST_NS;
        let at_last_ns = until_ns + 10 * WAITED_NS;
        loop {
            let now = mono_ns();
            let waits = self.lines.iter().any(|line| !line.waiting.is_empty());
            if self.watch.is_to_stop() {
                return Ok(Some(Ended::Stopped));
            }
            if now >= until_ns && !waits {
                return Ok(None);
            }
            if now >= at_last_ns {
                return Ok(Some(Ended::Broken("a connection has not answered for 10 s".to_owned())));
            }
            self.reactor.wait(events, Some(if now < until_ns { until_ns } else { at_last_ns }), false)?;
            for line in 0..self.lines.len() {
                // What broke shows when the next step is sent.
                let _ = self.read(line, now, &mut unheard);
            }
        }
    }

    /// Asks the kernel what it sent, and sent again, since it was asked last. `None`: that is nobody's.
    fn count_segments(&mut self, at_ns: Option<u64>, tally: &mut Tally) {
        for line in &mut self.lines {
            let Some(now) = socket::segments_sent(&line.socket) else { continue };
            let before = std::mem::replace(&mut line.segments, now);
            let Some(at_ns) = at_ns else { continue };
            // The kernel's counters begin anew at 2^32.
            tally.sent_again(at_ns, u64::from(now.again.wrapping_sub(before.again)));
            if let (Some(before), Some(now)) = (before.sent, now.sent) {
                tally.segments(at_ns, u64::from(now.wrapping_sub(before)));
            }
        }
    }

    /// Sends a packet, or what is left of the one before; one for which the kernel has no room is not sent.
    fn send(&mut self, line: usize, due_ns: u64, began_ns: u64, tally: &mut Tally) -> io::Result<()> {
        let line = &mut self.lines[line];
        let blocked = |rest: &mut Vec<u8>, socket: &TcpStream| {
            let written = match socket::write_now(socket, rest) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                outcome => outcome?,
            };
            rest.drain(..written);
            Ok::<bool, io::Error>(!rest.is_empty())
        };
        if !line.rest.is_empty() && blocked(&mut line.rest, &line.socket)? {
            tally.refused(due_ns);
            return Ok(());
        }
        let mut packet = vec![0; HEADER_LEN];
        line.key.fill_sealed(self.secret.as_ref(), line.next, HEADER_LEN as u32, 0, &mut packet);
        let sent_ns = mono_ns().saturating_sub(began_ns);
        blocked(&mut packet, &line.socket)?;
        if packet.len() == HEADER_LEN {
            tally.refused(due_ns);
            return Ok(());
        }
        line.rest = packet;
        line.waiting.push_back(Packet { sequence: line.next, due_ns, sent_ns });
        line.next += 1;
        tally.sent(due_ns, sent_ns.max(due_ns));
        Ok(())
    }

    /// Reads what has come on a connection; an error says what is wrong with it.
    fn read(&mut self, line: usize, began_ns: u64, tally: &mut Tally) -> Result<(), String> {
        let line = &mut self.lines[line];
        let mut buffer = [0; 16 << 10];
        loop {
            let mut bytes = match socket::read_now(&line.socket, &mut buffer) {
                Ok(0) => return Err("the other end closed a connection".to_owned()),
                Ok(read) => &buffer[..read],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(format!("a connection ended: {error}")),
            };
            let now_ns = mono_ns().saturating_sub(began_ns);
            while !bytes.is_empty() {
                let first = line.waiting.front().ok_or("something came that was not asked for")?;
                let (taken, whole) = line.checker.feed(line.key, first.sequence, HEADER_LEN as u32, bytes);
                bytes = &bytes[taken..];
                match whole {
                    Some(Integrity::Intact(_)) => {
                        tally.answered(first.due_ns, now_ns.saturating_sub(first.sent_ns));
                        line.waiting.pop_front();
                    }
                    None if line.checker.is_intact() => {}
                    _ => return Err("what comes back is not what was sent".to_owned()),
                }
            }
        }
    }
}
