//! One connection: what is out on it, what came back, and the row of it.

use fathom_core::event::{Evidence, TcpInfo};
use fathom_core::sample::{Flags, Sample};
use fathom_os::clock::mono_ns;
use fathom_os::socket;
use fathom_wire::{Checker, HEADER_LEN, Integrity, Key, Secret};
use mio::net::TcpStream;
use std::io;

/// What waits for its answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Out {
    pub(crate) ask: u64,
    /// When it was due, if it is a request; otherwise it only asks whether the connection works.
    pub(crate) due_ns: Option<u64>,
    pub(crate) sent_ns: u64,
    size: u32,
}

/// What came.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Came {
    /// Not all of it yet.
    Part,
    /// The whole answer to this.
    Answer(Out),
    /// What was not asked for, or not what was sent.
    Foreign,
}

/// See the module.
pub(crate) struct Link {
    /// None where not even an attempt could be begun.
    pub(crate) socket: Option<TcpStream>,
    pub(crate) target: usize,
    pub(crate) place: u32,
    pub(crate) begun_ns: u64,
    pub(crate) established_ns: Option<u64>,
    key: Key,
    checker: Checker,
    pub(crate) out: Option<Out>,
    /// Bytes that the kernel has not taken yet.
    unsent: Vec<u8>,
    /// Rows so far, those of requests only.
    rows: u64,
    answered: u64,
    last_answered: Option<u64>,
    heard_ns: Option<u64>,
    corrupted: bool,
    info: Option<TcpInfo>,
}

impl Link {
    pub(crate) fn new(session: u32, id: u32, target: usize, place: u32, now: u64) -> Self {
        Self {
            socket: None,
            target,
            place,
            begun_ns: now,
            established_ns: None,
            key: Key { session, connection: id },
            checker: Checker::default(),
            out: None,
            unsent: Vec::new(),
            rows: 0,
            answered: 0,
            last_answered: None,
            heard_ns: None,
            corrupted: false,
            info: None,
        }
    }

    /// Sends a request of so many bytes, or asks whether the connection works.
    pub(crate) fn send(
        &mut self,
        ask: u64,
        due_ns: Option<u64>,
        size: u32,
        secret: Option<&Secret>,
    ) -> io::Result<()> {
        let size = if due_ns.is_some() { size } else { HEADER_LEN as u32 };
        let mut bytes = vec![0; size as usize];
        self.key.fill_sealed(secret, ask, size, 0, &mut bytes);
        self.unsent = bytes;
        self.out = Some(Out { ask, due_ns, sent_ns: mono_ns(), size });
        self.write()
    }

    /// Writes what the kernel takes now; the rest when it takes more.
    pub(crate) fn write(&mut self) -> io::Result<()> {
        let Some(socket) = self.socket.as_ref().filter(|_| self.established_ns.is_some()) else {
            return Ok(());
        };
        while !self.unsent.is_empty() {
            match socket::write_now(socket, &self.unsent) {
                Ok(n) => drop(self.unsent.drain(..n)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Takes bytes that came.
    pub(crate) fn receive(&mut self, now: u64, mut bytes: &[u8]) -> Came {
        self.heard_ns = Some(now);
        let mut came = Came::Part;
        while !bytes.is_empty() {
            let Some(out) = self.out else { return Came::Foreign };
            let (taken, whole) = self.checker.feed(self.key, out.ask, out.size, bytes);
            bytes = &bytes[taken..];
            match whole {
                Some(Integrity::Intact(_)) => {
                    self.out = None;
                    came = Came::Answer(out);
                }
                Some(Integrity::Corrupted) => {
                    self.corrupted = true;
                    return Came::Foreign;
                }
                None => {}
            }
        }
        came
    }

    /// The row of a request that was answered now, or never will be.
    pub(crate) fn row(
        &mut self,
        out: Out,
        answered_ns: Option<u64>,
        utc_of: impl Fn(u64) -> i64,
    ) -> Option<Sample> {
        let due_ns = out.due_ns?;
        let seq = self.rows;
        self.rows += 1;
        let mut flags = Flags::default();
        if seq == 0 {
            flags |= Flags::FIRST_ON_CONNECTION;
        }
        let before = self.info.map_or(0, |info| info.total_retrans);
        self.info = self.socket.as_ref().and_then(socket::tcp_info).or(self.info);
        match answered_ns {
            Some(_) => {
                self.answered += 1;
                self.last_answered = Some(seq);
            }
            None => flags |= Flags::UNANSWERED,
        }
        if self.corrupted {
            flags |= Flags::CORRUPTED;
        }
        let resent = self.info.map(|info| info.total_retrans.saturating_sub(before));
        Some(Sample {
            connection: self.key.connection,
            seq,
            size: out.size,
            sent_ns: utc_of(out.sent_ns),
            lateness_ns: out.sent_ns as i64 - due_ns as i64,
            rtt_ns: answered_ns.map(|at| at.saturating_sub(out.sent_ns) as i64),
            srtt_us: self.info.map(|info| info.srtt_us),
            retransmits: resent.map(|n| u16::try_from(n).unwrap_or(u16::MAX)),
            flags,
            ..Sample::default()
        })
    }

    /// What is known of it at its end, of which all rows have been made.
    pub(crate) fn evidence(&self, now: u64, error: Option<&io::Error>) -> Evidence {
        Evidence {
            sent: self.rows,
            answered: self.answered,
            last_answered_seq: self.last_answered,
            outstanding: self.rows - self.answered,
            silent_ns: self.heard_ns.map(|at| now.saturating_sub(at)),
            error: error.map(ToString::to_string),
            tcp: self.info.map(Box::new),
        }
    }
}
