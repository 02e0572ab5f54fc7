//! A session on its socket. Nothing here decides anything.

use super::place::Place;
use super::shared::Shared;
use super::{Ended, Notice};
use crate::codec::Refusal;
use crate::machine::{Doing, Seen, Session, Step, Transfer};
use fathom_os::clock::mono_ns;
use fathom_os::reactor::Reactor;
use fathom_os::socket::transfer_times;
use mio::net::TcpStream;
use mio::{Events, Interest, Token};
use socket2::SockRef;
use std::io::{self, Read, Write};
use std::net::SocketAddr;

/// A client logs in at once, or it is none.
const LOGIN_NS: u64 = 10_000_000_000;
/// How often the end is looked for.
const LOOK_NS: u64 = 200_000_000;
/// Packets sent between two looks at what came, which may be a word to stop.
const SENDS_A_TURN: usize = 16;

/// Why a session ends.
enum End {
    /// The client closed it, it broke, or its time is over.
    Closed,
    /// The client was not understood.
    Refused(Refusal),
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> Self {
        Self::Closed
    }
}

impl From<Refusal> for End {
    fn from(why: Refusal) -> Self {
        Self::Refused(why)
    }
}

/// Serves one client to its end; without a number, one that there is no room for.
pub(super) fn run(stream: TcpStream, peer: SocketAddr, number: Option<u32>, place: &Place, shared: &Shared) {
    match Driver::new(stream, number, place, shared) {
        Ok(driver) => driver.run(peer, number.is_some()),
        Err(e) => (shared.notify)(&Notice::CannotBegin(e)),
    }
}

struct Driver<'a> {
    stream: TcpStream,
    reactor: Reactor,
    events: Events,
    session: Session,
    /// Since when the kernel takes nothing more.
    blocked_ns: Option<u64>,
    /// By which others ask about it, and what they are told.
    number: Option<u32>,
    told: Option<Seen>,
    /// When something last moved, and when the kernel last took something.
    moved_ns: u64,
    sent_ns: u64,
    began_ns: u64,
    place: &'a Place,
    shared: &'a Shared,
}

impl<'a> Driver<'a> {
    fn new(
        mut stream: TcpStream,
        number: Option<u32>,
        place: &'a Place,
        shared: &'a Shared,
    ) -> io::Result<Self> {
        // A packet is sent when it is full, as SQL Server does, and does not wait for the acknowledgement of the one before.
        stream.set_nodelay(true)?;
        if let Some(bytes) = shared.send_buffer {
            SockRef::from(&stream).set_send_buffer_size(bytes)?;
        }
        let reactor = Reactor::new()?;
        reactor.registry().register(&mut stream, Token(0), Interest::READABLE | Interest::WRITABLE)?;
        let identity = shared.identity.clone();
        let session = match number {
            Some(number) => Session::new(number, identity),
            None => Session::beyond(identity),
        };
        let (events, now) = (Events::with_capacity(4), mono_ns());
        let (blocked_ns, told) = (None, None);
        let (moved_ns, sent_ns, began_ns) = (now, now, now);
        Ok(Self {
            stream,
            reactor,
            events,
            session,
            blocked_ns,
            number,
            told,
            moved_ns,
            sent_ns,
            began_ns,
            place,
            shared,
        })
    }

    fn run(mut self, peer: SocketAddr, has_room: bool) {
        let end = loop {
            if let Err(end) = self.turn() {
                break end;
            }
        };
        self.unblock(mono_ns());
        if let Some(number) = self.number {
            self.shared.does(number, None);
        }
        let (served, waits) = (self.session.served(), self.session.waits());
        let open = self.session.is_open();
        self.shared.count(|counts| {
            counts.sessions += u64::from(open);
            counts.without_login += u64::from(has_room && !open);
            counts.served.merge(served);
            counts.waits.merge(waits);
        });
        let notice = match end {
            // Whatever it ended by, what it was served is told.
            end if open => {
                let (program, packet) = self.session.client();
                let (program, transfer) = (program.to_owned(), self.transfer());
                let why = if let End::Refused(why) = end { Some(why) } else { None };
                Notice::Ended(Ended { peer, program, packet, served, waits, transfer, why })
            }
            End::Refused(why) => Notice::Refused { peer, why },
            End::Closed if self.session.misses_encryption() => Notice::Encryption { peer },
            // A port scan, or a balancer that looks whether the port is open.
            End::Closed => return,
        };
        (self.shared.notify)(&notice);
    }

    fn turn(&mut self) -> Result<(), End> {
        if self.shared.is_over() || self.place.is_lost() || self.is_overdue(mono_ns()) {
            return Err(End::Closed);
        }
        self.read()?;
        if self.blocked_ns.is_some() {
            self.tell();
        }
        let until_ns = self.write()?;
        if self.session.is_open() {
            self.place.logs_in();
        }
        self.tell();
        Ok(self.reactor.wait(&mut self.events, Some(until_ns), false)?)
    }

    fn is_overdue(&self, now_ns: u64) -> bool {
        if !self.session.is_open() {
            return now_ns >= self.began_ns + LOGIN_NS;
        }
        let waits = self.session.is_idle() || self.blocked_ns.is_some();
        waits
            && self
                .shared
                .idle_timeout_ns
                .is_some_and(|longest| now_ns >= self.moved_ns.saturating_add(longest))
    }

    /// Takes what came.
    fn read(&mut self) -> Result<(), End> {
        let mut buffer = [0; 4_096];
        while self.session.wants_more() {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(End::Closed),
                Ok(n) => {
                    self.moved_ns = mono_ns();
                    self.session.received(self.moved_ns, &buffer[..n])?;
                    self.place.comes(self.moved_ns);
                    if self.session.has_ended() {
                        return Err(End::Closed);
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    /// Does what is to be done, and says how long there is nothing more to do.
    fn write(&mut self) -> Result<u64, End> {
        for _ in 0..SENDS_A_TURN {
            let now = mono_ns();
            match self.session.step(now)? {
                Step::Send(bytes) => match self.stream.write(bytes) {
                    Ok(n) => {
                        self.session.sent(n);
                        self.unblock(now);
                        // Making what was sent lies before.
                        self.sent_ns = mono_ns();
                        self.moved_ns = self.sent_ns;
                    }
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                        self.blocked_ns.get_or_insert(now);
                        return Ok(now + LOOK_NS);
                    }
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) => return Err(e.into()),
                },
                Step::Look => {
                    let transfer = self.transfer();
                    self.session.looked(now, transfer);
                }
                Step::See(number) => {
                    let seen = self.shared.seen(number);
                    self.session.saw(now, seen);
                }
                Step::Rest { until_ns } => return Ok(until_ns.min(now + LOOK_NS)),
                Step::Listen => return Ok(now + LOOK_NS),
            }
        }
        // At once: this turn is over so that what came is looked at, too.
        Ok(0)
    }

    /// Says what it does where others can ask. Of a wait that is under way it says how long it has lasted, because it may be over
    /// with the next byte that the kernel takes, and the client may ask before this thread goes on.
    fn tell(&mut self) {
        let now = mono_ns();
        let mut waits = self.session.waits();
        let doing = match self.blocked_ns {
            Some(since_ns) => {
                waits.add(now - since_ns);
                Doing::Blocked
            }
            None => self.session.doing(now),
        };
        let idle_ns = if doing == Doing::Nothing { self.sent_ns } else { 0 };
        let seen = Some(Seen { doing, idle_ns, waits });
        if let Some(number) = self.number.filter(|_| self.told != seen) {
            self.told = seen;
            self.shared.does(number, seen);
        }
    }

    fn unblock(&mut self, now_ns: u64) {
        if let Some(since) = self.blocked_ns.take() {
            self.session.was_blocked(now_ns - since);
        }
    }

    fn transfer(&self) -> Option<Transfer> {
        let times = transfer_times(&self.stream)?;
        let ns = |us: u64| us * 1_000;
        Some(Transfer {
            busy_ns: ns(times.busy_us),
            client_ns: ns(times.rwnd_limited_us),
            buffer_ns: ns(times.sndbuf_limited_us),
        })
    }
}
