//! Round trips of the same path at the same moments: echoes of a reflector, or else connection set-ups to the database's port,
//! which its kernel answers. A set-up costs the server a process that is started and ends, so they are few. `MySQL` takes a
//! connection that ends without a login for an error of its host, and lets nobody in from there after a hundred
//! (`max_connect_errors`): it is asked on a session of its own (`COM_PING`).

mod echoes;
mod known;
mod set_ups;

use crate::limit::{Limit, is_ended};
use crate::link::{Peer, WITHIN};
use crate::measured::Measured;
use crate::record::Record;
use crate::stood::Clock;
use crate::stop::LEAVE_WITHIN;
use crate::{Error, Stop};
use echoes::Echoes;
use fathom_core::query::{Rtt, Span};
use fathom_core::sample::{Flags, Sample};
use fathom_os::clock::mono_ns;
use known::{FIRST, Known, RoundTrip};
use set_ups::SetUps;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// From one of the first to the next.
const FIRST_EVERY: Duration = Duration::from_millis(20);

/// What a way of making round trips is made in.
struct Around {
    stop: Stop,
    record: Record,
    clock: Clock,
}

/// A way of making round trips: by set-ups of connections, or on one that stays.
trait Way {
    /// Makes one that is sent now.
    fn try_one(&mut self, beside: &Beside, sent_ns: u64) -> Made;

    /// It stands in the recording, as a sample of this connection.
    fn recorded(&mut self, connection: u32, is_answered: bool, sent_ns: u64);

    /// No more are made.
    fn end(&mut self);
}

/// What was made.
enum Made {
    RoundTrip(Tried),
    /// There is a connection for it by now.
    Way,
    /// There is none; it is worth another try then.
    Nothing {
        again_ns: u64,
    },
}

/// A round trip, answered or not.
struct Tried {
    /// Its row, but for its times.
    sample: Sample,
    /// How long it took here, and what that says of the path.
    outcome: io::Result<(u64, Measured)>,
}

/// See the module.
#[derive(Clone)]
pub(crate) struct Beside {
    shared: Arc<(Mutex<Known>, Condvar)>,
    every: Duration,
    /// Which of the connections that ask.
    connection: usize,
}

impl Beside {
    /// Begins, and waits for the first.
    pub(crate) fn begin(peer: Peer, stop: &Stop, record: Record, clock: &Clock) -> Result<Self, Error> {
        let beside = Self { shared: Arc::default(), every: peer.every(), connection: 0 };
        let (own, theirs) = (beside.clone(), stop.clone());
        let of_thread = clock.clone();
        let run = move || own.measure(&peer, &theirs, &record, &of_thread);
        let spawned = std::thread::Builder::new().name("beside".into()).spawn(run);
        spawned.map_err(|e| Error::run(format!("cannot begin a thread: {e}")))?;
        let patience = Limit::within(WITHIN, stop, clock).impatient();
        while beside.known().is_awaited() && patience.check().is_ok() {
            drop(beside.shared.1.wait_timeout(beside.known(), Limit::PIECE));
        }
        Ok(beside)
    }

    /// Of a path that nobody measures.
    #[cfg(test)]
    pub(crate) fn nobody() -> Self {
        Self { shared: Arc::default(), every: crate::link::ECHO_EVERY, connection: 0 }
    }

    /// The same for another of the connections that ask.
    pub(crate) fn of(&self, connection: usize) -> Self {
        Self { connection, ..self.clone() }
    }

    /// Waits until nothing is measured any more, once the run is over: what the path holds up is not waited for.
    pub(crate) fn end(&self) {
        let (known, told) = &*self.shared;
        let known = known.lock().unwrap_or_else(PoisonError::into_inner);
        drop(told.wait_timeout_while(known, LEAVE_WITHIN, |known| !known.is_over));
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The path's round trip at this moment; `None`: nothing has answered lately.
    pub(crate) fn rtt(&self, now_ns: u64) -> Option<Rtt> {
        self.known().rtt(now_ns, self.every)
    }

    /// When the server was last heard beside the queries, be it by a refusal; 0: it was not, or nobody asks it.
    pub(crate) fn heard_ns(&self) -> u64 {
        self.known().heard_ns
    }

    /// From now on the slowest is wanted.
    pub(crate) fn begin_slowest(&self) {
        let mut known = self.known();
        if known.slowest.len() <= self.connection {
            known.slowest.resize(self.connection + 1, Vec::new());
        }
        known.slowest[self.connection].clear();
    }

    /// The longest round trips since then, and one that is under way, but for the time that this process did not run.
    pub(crate) fn slowest(&self, now_ns: u64, stood_ns: u64) -> Vec<Span> {
        let known = self.known();
        let mut slowest = known.slowest.get(self.connection).cloned().unwrap_or_default();
        let under_way = known.since_ns.map(|since_ns| since_ns.saturating_add(stood_ns));
        slowest.extend(under_way.map(|from_ns| Span { from_ns, to_ns: now_ns.max(from_ns) }));
        slowest
    }

    /// Why nothing answers, where nothing does.
    pub(crate) fn why(&self) -> Option<String> {
        self.known().why.clone()
    }

    /// How many were not answered.
    pub(crate) fn failed(&self) -> u64 {
        self.known().failed
    }

    fn measure(&self, peer: &Peer, stop: &Stop, record: &Record, clock: &Clock) {
        let mut running = clock.running();
        let around = Around { stop: stop.clone(), record: record.clone(), clock: clock.clone() };
        let mut way: Box<dyn Way> = match peer {
            Peer::Port(remote) => Box::new(SetUps::new(*remote, around)),
            Peer::Reflector(_) | Peer::Session(_) => Box::new(Echoes::new(peer, around)),
        };
        let mut due_ns = mono_ns();
        while !stop.is_over() {
            let now = mono_ns();
            if now < due_ns {
                std::thread::sleep(Duration::from_nanos(due_ns - now).min(Duration::from_millis(50)));
                continue;
            }
            let sent_ns = mono_ns();
            self.known().since_ns = Some(sent_ns);
            let Tried { sample, outcome } = match way.try_one(self, sent_ns) {
                Made::RoundTrip(tried) => tried,
                // Timed from its own sending.
                Made::Way => continue,
                Made::Nothing { again_ns } => {
                    self.note(Err(()), mono_ns() - sent_ns);
                    due_ns = again_ns;
                    continue;
                }
            };
            self.listen(peer, outcome.as_ref().map(drop));
            let answered = outcome.map_err(|error| tracing::debug!(%error, "beside"));
            let is_answered = answered.is_ok();
            let mut sample = Sample {
                rtt_ns: answered.as_ref().ok().map(|(ns, _)| *ns as i64),
                lateness_ns: (sent_ns - due_ns) as i64,
                ..sample
            };
            if !is_answered {
                sample.flags |= Flags::UNANSWERED;
            }
            // This process may not have run meanwhile: that is nobody's round trip.
            let pauses = running.as_mut().map_or(&[][..], |running| running.runs(mono_ns()));
            let has_stood = pauses.iter().any(|&(_, to_ns)| to_ns > sent_ns);
            if has_stood {
                sample.flags |= Flags::OVERLAPS_LOCAL_PAUSE;
            }
            record.sample(sample, sent_ns);
            way.recorded(sample.connection, is_answered, sent_ns);
            if has_stood {
                let mut known = self.known();
                (known.tries, known.since_ns) = (known.tries + 1, None);
            } else {
                self.note(answered.map(|(_, measured)| measured), mono_ns() - sent_ns);
            }
            let every = if self.known().tries < FIRST { FIRST_EVERY } else { peer.every() };
            due_ns = now + every.as_nanos() as u64;
        }
        way.end();
        record.beside_is_over();
        self.known().is_over = true;
        self.shared.1.notify_all();
    }

    /// Whether the server was heard: a set-up its kernel answers without it, and an echo is another's.
    fn listen(&self, peer: &Peer, outcome: Result<(), &io::Error>) {
        let mut known = self.known();
        known.why = outcome.err().map(ToString::to_string);
        let is_the_server = matches!(peer, Peer::Session(_));
        if is_the_server && outcome.map_or_else(is_of_the_other_end, |()| true) {
            known.heard_ns = mono_ns();
        }
    }

    /// The server let nobody in.
    fn refused(&self) {
        let mut known = self.known();
        // It has said so: nothing was held up.
        (known.since_ns, known.is_refused) = (None, true);
    }

    fn note(&self, outcome: Result<Measured, ()>, took_ns: u64) {
        let mut known = self.known();
        known.tries += 1;
        let since_ns = known.since_ns.take();
        let held_ns = match outcome {
            Ok(measured) => measured.held_ns,
            Err(()) if since_ns.is_some() => took_ns,
            // The server had it, and its process did not answer.
            Err(()) => 0,
        };
        let from_ns = since_ns.unwrap_or_else(|| mono_ns().saturating_sub(took_ns));
        known.held(Span { from_ns, to_ns: from_ns.saturating_add(held_ns) });
        match outcome {
            Ok(measured) => known.answered(RoundTrip { at_ns: mono_ns(), ns: measured.ns }, self.every),
            Err(()) => known.failed += 1,
        }
        self.shared.1.notify_all();
    }
}

/// Whether it tells that the other end is there, and does not want: not that nothing came, or that no way leads to it.
fn is_of_the_other_end(error: &io::Error) -> bool {
    use io::ErrorKind::{HostUnreachable, NetworkUnreachable, TimedOut};
    !is_ended(error) && !matches!(error.kind(), TimedOut | HostUnreachable | NetworkUnreachable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn refusal_proves_peer_alive_timeout_does_not() {
        let heard = |error: io::Error| is_of_the_other_end(&error);
        assert!(
            heard(io::ErrorKind::ConnectionRefused.into()) && heard(io::ErrorKind::ConnectionReset.into())
        );
        // As where a server lets nobody more in.
        assert!(heard(io::Error::other("User 'me' has exceeded the 'max_user_connections' resource (1226)")));
        for kind in
            [io::ErrorKind::TimedOut, io::ErrorKind::HostUnreachable, io::ErrorKind::NetworkUnreachable]
        {
            assert!(!heard(kind.into()), "{kind}");
        }
        assert!(!heard(io::Error::other(crate::limit::Ended)));
    }

    const MS: u64 = 1_000_000;

    fn slowest_ns(beside: &Beside) -> u64 {
        beside.slowest(0, 0).iter().map(|span| span.ns()).max().unwrap_or(0)
    }

    /// One begins a query while the other's goes on: what was slow before that is the other's alone.
    #[test]
    fn each_connection_has_a_slowest_of_its_own() {
        let beside = [0, 1].map(|connection| Beside::nobody().of(connection));
        let beside =
            [beside[0].clone(), Beside { shared: Arc::clone(&beside[0].shared), ..beside[1].clone() }];
        beside[0].begin_slowest();
        let note = |outcome, took_ns| {
            beside[0].known().since_ns = Some(1);
            beside[0].note(outcome, took_ns);
        };
        note(Ok(Measured::of(9 * MS)), 9 * MS);
        beside[1].begin_slowest();
        note(Err(()), 5 * MS);
        assert_eq!([0, 1].map(|of: usize| slowest_ns(&beside[of])), [9 * MS, 5 * MS]);
        beside[0].begin_slowest();
        assert_eq!([0, 1].map(|of: usize| slowest_ns(&beside[of])), [0, 5 * MS]);
    }

    /// The path is as it is when nothing is lost, and held up what was; what a server's process kept waiting was not on the way.
    #[test]
    fn slowest_round_trip_includes_loss_delay() {
        let beside = Beside::nobody();
        let after = |since_ns, outcome| {
            beside.begin_slowest();
            beside.known().since_ns = since_ns;
            beside.note(outcome, 5_000 * MS);
            slowest_ns(&beside)
        };
        let lost = Measured { ns: MS, held_ns: 1_001 * MS };
        assert_eq!(after(Some(1), Ok(lost)), 1_001 * MS);
        assert_eq!(beside.known().round_trips.back().unwrap().ns, MS);
        assert_eq!([after(Some(1), Err(())), after(None, Err(()))], [5_000 * MS, 0]);
    }

    #[test]
    fn pending_round_trip_does_not_delay_end() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let remote = listener.local_addr().unwrap();
        let abandoned: fn(&Stop) = Stop::leave;
        let asked_twice: fn(&Stop) = |stop| {
            stop.ask();
            stop.over();
        };
        for leave in [abandoned, asked_twice] {
            let (record, _) = Record::begin(None, "x", remote, serde_json::Value::Null, |_| {}).unwrap();
            let stop = Stop::default();
            let asked = stop.clone();
            let begun = std::thread::spawn(move || {
                Beside::begin(Peer::Reflector(remote), &asked, record, &Clock::default()).unwrap()
            });
            let (silent, _) = listener.accept().unwrap();
            // It has asked, and waits.
            silent.peek(&mut [0]).unwrap();
            stop.ask();
            let beside = begun.join().unwrap();
            assert!(!beside.known().is_over);
            leave(&stop);
            beside.end();
            assert!(beside.known().is_over, "it is waited for");
            assert_eq!(beside.failed(), 1);
        }
    }

    /// The server says at once that the password is wrong (1045).
    #[test]
    fn refused_login_is_not_retried() {
        let is_over = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let (login, server) = crate::tests::serve("?sslmode=disable", move |listener| {
            let mut logins = 0;
            loop {
                let (mut stream, _) = listener.accept().unwrap();
                if over.load(std::sync::atomic::Ordering::SeqCst) {
                    return logins;
                }
                logins += 1;
                let error = b"\xff\x15\x04Access denied";
                _ = stream.write_all(&[&[error.len() as u8, 0, 0, 0], &error[..]].concat());
            }
        });
        let (remote, stop) = (login.remote, login.stop.clone());
        let (record, _) = Record::begin(None, "x", remote, serde_json::Value::Null, |_| {}).unwrap();
        let beside =
            Beside::begin(Peer::Session(Box::new(login.clone())), &stop, record, &Clock::default()).unwrap();
        assert!(beside.why().is_some_and(|why| why.contains("1045")), "{:?}", beside.why());
        assert!(login.barred.get().is_some(), "nor does any other");
        stop.over();
        beside.end();
        is_over.store(true, std::sync::atomic::Ordering::SeqCst);
        drop(std::net::TcpStream::connect(remote).unwrap());
        assert_eq!(server.join().unwrap(), 1);
    }
}
