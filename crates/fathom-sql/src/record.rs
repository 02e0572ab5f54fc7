//! Writes the recording on a thread of its own: round trips as any probe's rows, queries in `queries-*.parquet`.

#[cfg(test)]
mod tests;

use crate::backlog::{Backlog, Lost};
use crate::{Error, Recording};
use fathom_core::cause::is_local;
use fathom_core::event::EventKind;
use fathom_core::sample::Sample;
use fathom_core::text::count;
use fathom_os::clock::{anchor, mono_ns};
use fathom_os::host::HostFacts;
use fathom_os::interfaces;
use fathom_recording::{ClockAnchor, Keeper, Manifest, Queries, Query, Recorder, ReflectorFacts};
use jiff::Timestamp;
use serde_json::Value;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

const MS: u64 = 1_000_000;
/// What came is on the disk after so long.
const FLUSH_EVERY_NS: u64 = 500 * MS;

enum Message {
    Sample(Box<Sample>, u64),
    Event(Option<u32>, Box<EventKind>),
    /// Many queries have come, which lie in the backlog.
    Queries,
    BesideIsOver,
    End(Box<EventKind>),
}

/// Where to send what is to be recorded; without a recording it goes nowhere.
#[derive(Clone)]
pub(crate) struct Record(Option<(Sender<Message>, Arc<Backlog>)>);

/// The thread that writes.
pub(crate) struct Writer(Option<JoinHandle<Written>>);

/// Queries that are in no file (`None`: nobody counted them), and why the recording is not whole.
type Written = (Option<Lost>, Result<(), String>);

impl Record {
    /// Begins a recording where one is wanted.
    pub(crate) fn begin(
        recording: Option<&Recording>,
        label: &str,
        remote: SocketAddr,
        probe: Value,
        tell: fn(&str),
    ) -> Result<(Self, Writer), Error> {
        let Some(recording) = recording else {
            return Ok((Self(None), Writer(None)));
        };
        let mut manifest = Manifest::new(label, Timestamp::now(), recording.tool.clone());
        manifest.command = Some(recording.command.clone());
        manifest.probe = probe;
        let nic = interfaces::towards(SocketAddr::new(remote.ip(), 0), remote);
        manifest.host = serde_json::to_value(HostFacts::gather(nic.as_deref())).unwrap_or(Value::Null);
        manifest.clock_anchors.push(ClockAnchor::new(anchor(), false));
        manifest.reflector = ReflectorFacts {
            address: label.to_owned(),
            resolved: Some(remote.to_string()),
            ..ReflectorFacts::default()
        };
        let recorder = Recorder::create(&recording.dir, manifest).map_err(|e| Error::run(e.to_string()))?;
        let queries = Queries::new(&recording.dir);
        let (sender, messages) = channel();
        let backlog = Arc::new(Backlog::new(tell));
        let theirs = Arc::clone(&backlog);
        let run = move || write(&messages, Keeper::new(Some(recorder), anchor, tell), queries, &theirs, tell);
        let thread = std::thread::Builder::new().name("record".into()).spawn(run);
        let thread = thread.map_err(|e| Error::run(format!("cannot begin a thread: {e}")))?;
        Ok((Self(Some((sender, backlog))), Writer(Some(thread))))
    }

    fn send(&self, message: Message) {
        if let Some((sender, _)) = &self.0 {
            // Its end is told by itself.
            _ = sender.send(message);
        }
    }

    pub(crate) fn sample(&self, sample: Sample, sent_mono_ns: u64) {
        self.send(Message::Sample(Box::new(sample), sent_mono_ns));
    }

    pub(crate) fn query(&self, query: Query, began_mono_ns: u64) {
        if self.0.as_ref().is_some_and(|(_, backlog)| backlog.add(query, began_mono_ns)) {
            self.send(Message::Queries);
        }
    }

    /// Waits until the recording is hardly behind, or the run is over; for how long, in ns. To be called between queries.
    pub(crate) fn wait(&self, is_over: impl Fn() -> bool) -> u64 {
        self.0.as_ref().map_or(0, |(_, backlog)| backlog.wait(is_over))
    }

    pub(crate) fn note(&self, text: String) {
        self.event(None, EventKind::Note { text });
    }

    /// This process did not run.
    pub(crate) fn pause(&self, duration_ns: u64, reason: Option<String>) {
        self.event(None, EventKind::Pause { host: "local".to_owned(), duration_ns, reason });
    }

    fn event(&self, connection: Option<u32>, kind: EventKind) {
        self.send(Message::Event(connection, Box::new(kind)));
    }

    /// A connection beside the queries was established.
    pub(crate) fn opened(
        &self,
        connection: u32,
        remote: SocketAddr,
        local: Option<SocketAddr>,
        connect_ns: u64,
    ) {
        let local = local.map(|local| local.to_string()).unwrap_or_default();
        let (target, remote) = (remote.to_string(), remote.to_string());
        let connect_ns = connect_ns as i64;
        let kind = EventKind::ConnectionOpened {
            target,
            local,
            remote,
            connect_ns,
            tls_ns: None,
            interface: None,
            lane: Some(0),
        };
        self.event(Some(connection), kind);
    }

    /// It was not.
    pub(crate) fn refused(&self, connection: u32, remote: SocketAddr, error: &io::Error) {
        let (target, remote) = (remote.to_string(), Some(remote.to_string()));
        let (errno, error) = (error.raw_os_error(), error.to_string());
        let kind = EventKind::ConnectionRefused {
            target,
            remote,
            errno,
            error,
            retry_in_ns: None,
            waited_ns: None,
            local: errno.is_some_and(is_local),
            lane: Some(0),
        };
        self.event(Some(connection), kind);
    }

    /// It was closed from here.
    pub(crate) fn closed(&self, connection: u32, sent: u64, answered: u64, age_ns: u64) {
        self.event(Some(connection), closing(sent, answered, age_ns));
    }

    /// No more round trips come.
    pub(crate) fn beside_is_over(&self) {
        self.send(Message::BesideIsOver);
    }

    /// Ends the recording, and waits until it is whole; which queries are not in it, and why.
    pub(crate) fn end(self, writer: Writer, result: Value) -> (Option<Lost>, Result<(), Error>) {
        self.send(Message::End(Box::new(EventKind::SqlEnded { result })));
        let (lost, written) = writer.0.map_or((Some(Lost::default()), Ok(())), |thread| {
            thread.join().unwrap_or_else(|_| (None, Err("its thread failed".to_owned())))
        });
        let error = |e| {
            let queries = match lost.as_ref().map(Lost::all) {
                None => "some queries not in it".to_owned(),
                Some(0) => "though all queries are in it".to_owned(),
                Some(n) => format!("{} not in it", count(n, "query")),
            };
            Error::run(format!("the recording is not whole, {queries}: {e}"))
        };
        let written = written.map_err(error);
        (lost, written)
    }
}

fn write(
    messages: &Receiver<Message>,
    mut keeper: Keeper,
    mut queries: Queries,
    backlog: &Backlog,
    tell: fn(&str),
) -> Written {
    // Nobody waits for one that ended.
    let _stuck = Stuck(backlog);
    let (mut end, mut beside_is_over) = (None, false);
    let mut flush_ns = mono_ns();
    let mut failed: Option<String> = None;
    // What measures beside may be in the middle of a round trip when the last query is over.
    while end.is_none() || !beside_is_over {
        let waits_ns = (flush_ns + FLUSH_EVERY_NS).saturating_sub(mono_ns()).clamp(MS, 200 * MS);
        match messages.recv_timeout(Duration::from_nanos(waits_ns)) {
            Ok(Message::Sample(sample, sent_ns)) => {
                keeper.sample(&Sample { sent_ns: keeper.utc_of(sent_ns), ..*sample });
            }
            Ok(Message::Event(connection, kind)) => drop(keeper.event(connection, *kind)),
            Ok(Message::BesideIsOver) => beside_is_over = true,
            Ok(Message::End(kind)) => end = Some(kind),
            Ok(Message::Queries) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        // Before the clock is looked at: what began before it was set is of the clock of before.
        let is_full = take(backlog, &mut queries, &keeper);
        let now = mono_ns();
        keeper.flush(now);
        if is_full || now.saturating_sub(flush_ns) >= FLUSH_EVERY_NS {
            flush_ns = now;
            if keeper.waits_for_room() {
                // What room there is was made for its events, and it has told so.
                backlog.stuck(true);
            } else {
                note(&mut failed, flush(&mut queries, &mut keeper, backlog), tell);
            }
        }
    }
    take(backlog, &mut queries, &keeper);
    // What is kept for the last words they cannot take.
    note(&mut failed, flush(&mut queries, &mut keeper, backlog), tell);
    queries.close().map(|closed| keeper.event(None, closed));
    let mut lost = backlog.lost();
    queries.unwritten().iter().for_each(|query| lost.add(query));
    let is_lossy = lost.all() > 0;
    let mut end =
        end.map_or(EventKind::Note { text: "the run ended without a result".to_owned() }, |kind| *kind);
    if let (EventKind::SqlEnded { result }, true) = (&mut end, is_lossy) {
        result["unrecorded"] = lost.all().into();
        for (of, at) in result["connections"].as_array_mut().into_iter().flatten().zip(0..) {
            of["unrecorded"] = lost.of(at).into();
        }
    }
    let finished = keeper.finish(end);
    let finished = if is_lossy { Err("it could not be written for too long".to_owned()) } else { finished };
    (Some(lost), failed.map_or(finished, Err))
}

/// Takes the queries that came; whether a file is full of them.
fn take(backlog: &Backlog, queries: &mut Queries, keeper: &Keeper) -> bool {
    let mut is_full = false;
    for (query, began_ns) in backlog.take() {
        is_full |= queries.push(Query { started_ns: keeper.utc_of(began_ns), ..query });
    }
    is_full
}

/// Puts what came on the disk: what is there waits no more.
fn flush(
    queries: &mut Queries,
    keeper: &mut Keeper,
    backlog: &Backlog,
) -> Result<(), fathom_recording::Error> {
    let before = queries.unwritten().len();
    let flushed = queries.flush();
    // What is listed is on the disk.
    for closed in queries.take_closed() {
        keeper.event(None, closed);
    }
    backlog.stuck(flushed.is_err());
    backlog.written((before - queries.unwritten().len()) as u64);
    flushed
}

/// From its end on nothing is written.
struct Stuck<'a>(&'a Backlog);

impl Drop for Stuck<'_> {
    fn drop(&mut self) {
        self.0.stuck(true);
    }
}

/// Tells of trouble, once; a later flush that succeeds mends it, because what was not written is written then.
fn note(failed: &mut Option<String>, flushed: Result<(), fathom_recording::Error>, tell: fn(&str)) {
    match flushed {
        Ok(()) => *failed = None,
        Err(error) => {
            let error = error.with_advice(false);
            if failed.is_none() {
                tell(&format!("queries cannot be recorded now: {error}"));
            }
            *failed = Some(error);
        }
    }
}

/// What a `connection.closed` of these connections says.
fn closing(sent: u64, answered: u64, age_ns: u64) -> EventKind {
    use fathom_core::cause::ClosingCause;
    use fathom_core::event::Evidence;
    EventKind::ConnectionClosed {
        cause: ClosingCause::Finished,
        verdict: None,
        errno: None,
        age_ns,
        evidence: Evidence {
            sent,
            answered,
            last_answered_seq: answered.checked_sub(1),
            outstanding: sent - answered,
            ..Evidence::default()
        },
    }
}
