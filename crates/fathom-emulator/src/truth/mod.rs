//! `truth.jsonl` and `truth-packets.parquet`: what the fabric did, by the clock of the recordings, written by a thread of
//! its own so that a slow disk never delays a packet.

mod packets;
mod record;

use crate::error::Error;
use fathom_core::clock::{ClockMap, Observation};
use fathom_fabric::truth::{PacketFate, Truth};
use fathom_fabric::world::{Output, World};
use fathom_os::replace::create;
use fathom_os::{assist, clock};
use jiff::Timestamp;
use packets::PacketFile;
use record::{Names, StampedRecord};
use serde::Serialize;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Records that are handed over at once, at most.
const BATCH: usize = 1_024;
/// Batches that may wait for the disk: 4 million records, some 200 s of 20,000 packets a second.
const WAITING: usize = 4_096;
/// How often the clocks are compared, as by a probe.
const LOOK_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug)]
enum Item {
    Truths(Vec<Truth>),
    Packets(Vec<StampedRecord>),
}

/// The loop's end of the log.
#[derive(Debug)]
pub(crate) struct TruthLog {
    sender: SyncSender<Item>,
    packets: Vec<StampedRecord>,
}

impl TruthLog {
    /// Takes what came of a call of the world. What happened goes to the writer at once, packets in batches. `out_ns` has
    /// the moments at which the deliveries were made, in their order. Returns how many lines had no room.
    pub(crate) fn take(&mut self, out: &mut Output, out_ns: &[u64]) -> u64 {
        let mut lost = 0;
        if !out.truths.is_empty() {
            lost += self.pass(Item::Truths(std::mem::take(&mut out.truths)));
        }
        let mut stamps = out_ns.iter();
        for record in out.records.drain(..) {
            let out_ns = match record.fate {
                PacketFate::Delivered => stamps.next().copied(),
                _ => None,
            };
            self.packets.push(StampedRecord { record, out_ns });
        }
        if self.packets.len() >= BATCH { lost + self.send() } else { lost }
    }

    /// Hands over what has gathered.
    pub(crate) fn send(&mut self) -> u64 {
        if self.packets.is_empty() {
            return 0;
        }
        let batch = std::mem::replace(&mut self.packets, Vec::with_capacity(BATCH));
        self.pass(Item::Packets(batch))
    }

    fn pass(&self, item: Item) -> u64 {
        match self.sender.try_send(item) {
            Ok(()) => 0,
            Err(TrySendError::Full(item) | TrySendError::Disconnected(item)) => match item {
                Item::Truths(truths) => truths.len() as u64,
                Item::Packets(packets) => packets.len() as u64,
            },
        }
    }
}

impl Drop for TruthLog {
    fn drop(&mut self) {
        self.send();
    }
}

/// The writer's thread, to be waited for.
pub(crate) type Writing = JoinHandle<Result<(), String>>;

/// What the writer must know besides what happens.
pub(crate) struct Heading {
    pub(crate) scenario: String,
    pub(crate) seed: u64,
    pub(crate) packets: bool,
}

/// Begins the log in a directory, which is made if need be and must not hold another.
pub(crate) fn begin(dir: &Path, heading: &Heading, world: &World) -> Result<(TruthLog, Writing), Error> {
    let path = dir.join("truth.jsonl");
    let failed = |path: &Path, e: &io::Error| {
        Error::run(format!(
            "cannot create {}: {e}; --truth must name a directory to which you can write",
            path.display()
        ))
    };
    fs::create_dir_all(dir).map_err(|e| failed(dir, &e))?;
    let file = create(&path, 0o600).map_err(|e| {
        if e.kind() == ErrorKind::AlreadyExists {
            Error::run(format!("{} holds the truth of another run; name another directory", path.display()))
        } else {
            failed(&path, &e)
        }
    })?;
    let packets = if heading.packets {
        let path = dir.join("truth-packets.parquet");
        Some(PacketFile::create(&path, Names::of(world)).map_err(|e| failed(&path, &e))?)
    } else {
        None
    };
    let mut writer =
        Writer { lines: BufWriter::new(file), path, clocks: ClockMap::new(clock::anchor()), packets };
    writer
        .fabric_line(
            "truth.started",
            json!({
                "fathom": env!("CARGO_PKG_VERSION"), "scenario": heading.scenario, "seed": heading.seed,
                "clock": "CLOCK_MONOTONIC_RAW",
            }),
        )
        .and_then(|()| writer.anchored())
        .map_err(Error::run)?;
    let (sender, receiver) = sync_channel(WAITING);
    let writing = thread::Builder::new()
        .name("truth".to_owned())
        .spawn(move || writer.run(&receiver))
        .map_err(|e| Error::thread(&e))?;
    Ok((TruthLog { sender, packets: Vec::with_capacity(BATCH) }, writing))
}

#[derive(Serialize)]
struct Line<'a, T> {
    at: Timestamp,
    mono_ns: u64,
    #[serde(flatten)]
    rest: &'a T,
}

struct Writer {
    lines: BufWriter<File>,
    path: PathBuf,
    clocks: ClockMap,
    packets: Option<PacketFile>,
}

impl Writer {
    fn run(mut self, items: &Receiver<Item>) -> Result<(), String> {
        // A refusal means only that it competes with others as their equal.
        let _ = assist::background_priority();
        let mut look_at = std::time::Instant::now() + LOOK_EVERY;
        loop {
            match items.recv_timeout(look_at.saturating_duration_since(std::time::Instant::now())) {
                Ok(Item::Truths(truths)) => {
                    for truth in &truths {
                        self.line(truth.at_ns, truth)?;
                    }
                    self.flush()?;
                }
                Ok(Item::Packets(batch)) => {
                    if let Some(packets) = &mut self.packets {
                        packets.write(&batch, &self.clocks)?;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    look_at += LOOK_EVERY;
                    match self.clocks.observe(clock::anchor()) {
                        Observation::Steady => {}
                        Observation::Anchored => self.anchored()?,
                        Observation::Stepped(step_ns) => {
                            self.fabric_line("clock.stepped", json!({ "step_ns": step_ns }))?;
                            self.anchored()?;
                        }
                    }
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        if let Some(packets) = self.packets.take() {
            packets.finish()?;
        }
        self.fabric_line("truth.ended", json!({}))
    }

    /// The anchor that is in force from this line on: how `mono_ns` becomes `at`.
    fn anchored(&mut self) -> Result<(), String> {
        let anchor = self.clocks.anchor();
        self.fabric_line(
            "clock.anchored",
            json!({ "anchor_mono_ns": anchor.mono_ns, "anchor_utc_ns": anchor.utc_ns }),
        )
    }

    /// A line about the log itself.
    fn fabric_line(&mut self, kind: &str, mut what: Value) -> Result<(), String> {
        what["place"] = "fabric".into();
        what["kind"] = kind.into();
        self.line(clock::mono_ns(), &what)?;
        self.flush()
    }

    fn line(&mut self, mono_ns: u64, rest: &impl Serialize) -> Result<(), String> {
        let at =
            Timestamp::from_nanosecond(i128::from(self.clocks.utc_of(mono_ns))).map_err(|e| e.to_string())?;
        serde_json::to_writer(&mut self.lines, &Line { at, mono_ns, rest })
            .map_err(io::Error::from)
            .and_then(|()| self.lines.write_all(b"\n"))
            .map_err(|e| self.failed(&e))
    }

    fn flush(&mut self) -> Result<(), String> {
        self.lines.flush().map_err(|e| self.failed(&e))
    }

    fn failed(&self, e: &io::Error) -> String {
        format!("cannot write {}: {e}; the truth is not complete", self.path.display())
    }
}
