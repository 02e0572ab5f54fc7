//! The kinds of event, and what each carries.

use super::{
    Became, BreakerChanged, Carried, CeilingBegan, CeilingStepped, Death, Ended, Evidence, Interrupted,
    LimitsBegan, Lived, ThroughputInterval, TryFailed, What,
};
use crate::cause::ClosingCause;
use crate::loss::Losses;
use crate::peer_report::PeerReport;
use crate::verdict::{Confidence, Direction, Explanation, Fresh, Verdict};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What happened. Names and fields are part of the recording format (`schema/`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum EventKind {
    /// The recording began.
    #[serde(rename = "recording.started")]
    RecordingStarted {},
    /// The recording ended in order; `error` says what stopped it early.
    #[serde(rename = "recording.ended")]
    RecordingEnded {
        /// Rows written over the whole recording.
        samples: u64,
        /// Why it ended before the run did (a full disk, say).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// The recording ends here, and its run goes on in another (`--rotate`).
    #[serde(rename = "recording.rotated")]
    RecordingRotated {
        /// The other's id.
        next: String,
        /// What of the run stands here and in those before.
        #[serde(flatten)]
        carried: Carried,
    },
    /// The recording begins in the middle of a run, whose beginning is in another.
    #[serde(rename = "recording.continues")]
    RecordingContinues {
        /// The other's id.
        previous: String,
        /// What of the run stands there and in those before.
        #[serde(flatten)]
        carried: Carried,
    },
    /// An open segment was closed: its rows now stand in a Parquet file.
    #[serde(rename = "segment.closed")]
    SegmentClosed {
        /// File name within the recording.
        file: String,
        /// Rows in it.
        rows: u64,
        /// Its size.
        bytes: u64,
        /// CRC-32 (IEEE 802.3) of the whole file.
        crc32: u32,
    },
    /// A torn tail was found and left behind when an interrupted recording was recovered.
    #[serde(rename = "recording.recovered")]
    RecordingRecovered {
        /// Rows that were saved from open segments.
        rows: u64,
        /// Bytes at the end of open segments that were not a whole record batch.
        torn_bytes: u64,
    },
    /// A connection is being attempted.
    #[serde(rename = "connection.opening")]
    ConnectionOpening {
        /// Target as the user named it.
        target: String,
        /// Address and port tried.
        remote: String,
        /// Attempts since the last success, from 1.
        attempt: u32,
        /// The lane, from 0: connections that take one another's place are of one lane. Absent in older recordings.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lane: Option<u32>,
    },
    /// A connection was established.
    #[serde(rename = "connection.opened")]
    ConnectionOpened {
        /// Target as the user named it.
        target: String,
        /// Address and port here.
        local: String,
        /// Address and port there.
        remote: String,
        /// From the SYN to established, in ns (UDP: 0).
        connect_ns: i64,
        /// From established to the end of the TLS handshake, in ns; absent: there was none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tls_ns: Option<i64>,
        /// Interface by which its packets leave, by the routing table; absent where the system does not tell.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interface: Option<String>,
        /// The lane, from 0: connections that take one another's place are of one lane. Absent in older recordings.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lane: Option<u32>,
    },
    /// An attempt failed.
    #[serde(rename = "connection.refused")]
    ConnectionRefused {
        /// Target as the user named it.
        target: String,
        /// Address and port tried, where there was one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        remote: Option<String>,
        /// The system's error number, where there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        errno: Option<i32>,
        /// What went wrong.
        error: String,
        /// Wait before the next attempt, in ns; none: no more attempts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_in_ns: Option<u64>,
        /// Time from the start of the attempt to its failure, in ns. Absent if a `connection.opening` event gives the
        /// start.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        waited_ns: Option<u64>,
        /// True if this host failed before it sent anything: it had no port, descriptor, address or route.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        local: bool,
        /// The lane, from 0: connections that take one another's place are of one lane. Absent in older recordings.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lane: Option<u32>,
    },
    /// Attempts to connect hang: none has an answer yet, and no later attempt was answered. The event repeats while
    /// they hang.
    #[serde(rename = "connection.unanswered")]
    ConnectionUnanswered {
        /// Target as the user named it.
        target: String,
        /// Address and port of the first hanging attempt.
        remote: String,
        /// Number of hanging attempts.
        attempts: u64,
        /// Time that the first attempt has waited, in ns.
        waited_ns: u64,
        /// Time that the latest attempt has waited, in ns.
        latest_waited_ns: u64,
    },
    /// A connection ended.
    #[serde(rename = "connection.closed")]
    ConnectionClosed {
        /// What ended it.
        cause: ClosingCause,
        /// What the evidence says about why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        verdict: Option<String>,
        /// The system's error number, where there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        errno: Option<i32>,
        /// From established to closed, in ns.
        age_ns: u64,
        /// The facts at the end.
        evidence: Evidence,
    },
    /// Samples are outstanding and nothing comes back.
    #[serde(rename = "stall.began")]
    StallBegan {
        /// The oldest sample without its echo.
        seq: u64,
        /// Samples without their echo.
        outstanding: u64,
        /// Silence that counts as a stall on this connection now, in ns.
        threshold_ns: u64,
    },
    /// The echo came again, or the connection was lost. (A stall that goes on when the run ends has no such event.)
    #[serde(rename = "stall.ended")]
    StallEnded {
        /// From the moment the missing echo was sent for to its arrival, in ns.
        duration_ns: u64,
        /// Samples sent during the stall and answered only after it (or never).
        samples: u64,
        /// Whether the echo came (false: the connection ended).
        recovered: bool,
        /// Segments the kernel sent again during the stall, where it tells.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retransmits: Option<u32>,
    },
    /// Echoes come, and take far longer than usual.
    #[serde(rename = "delay.began")]
    DelayBegan {
        /// The first sample that did.
        seq: u64,
        /// Its round trip, in ns.
        rtt_ns: u64,
        /// From when on a round trip counts as that long, in ns.
        threshold_ns: u64,
    },
    /// Echoes are in time again. (A delay of the path that goes on at a connection's end has no such event.)
    #[serde(rename = "delay.ended")]
    DelayEnded {
        /// From the sending of its first sample to the arrival of its last, in ns.
        duration_ns: u64,
        /// Samples that were late.
        samples: u64,
        /// The longest round trip, in ns.
        most_ns: u64,
        /// Of that sample, how much longer than usual the way there took, in ns, without what waited there for a host to run;
        /// absent: the reflector's stamps do not tell.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        forward_ns: Option<u64>,
        /// The same of the way back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        back_ns: Option<u64>,
        /// `delayed`; `local_paused`, `peer_paused`: hosts did not run for most of it, the one named for longer, and the path
        /// was not slow.
        verdict: Verdict,
        /// Which way took nearly all of it, where one did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        direction: Option<Direction>,
        /// How sure that is.
        confidence: Confidence,
    },
    /// A host did not run for a while.
    #[serde(rename = "pause")]
    Pause {
        /// `local` (the probe's host) or `remote` (the reflector's).
        host: String,
        /// How long, in ns.
        duration_ns: u64,
        /// What the host's own accounts say about it (`stopped`, `host_scheduling`, `steal`), where they say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// What the evidence says about a stall or an end, once what a fresh connection met is known. It comes again when
    /// the reflector could be asked only later; the last counts.
    #[serde(rename = "connection.explained")]
    ConnectionExplained {
        /// `stall` or `closing`.
        about: String,
        /// The verdict and the facts that led to it.
        #[serde(flatten)]
        explanation: Explanation,
        /// What a fresh connection to the same target met.
        fresh: Fresh,
        /// What the reflector said of this connection, asked over another one. Absent: it was not asked, could not be
        /// reached, or does not answer such questions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reflector: Option<Box<PeerReport>>,
    },
    /// STAMP: how far differences of the two ends' clocks (`forward_ns`, `backward_ns`) may be from the truth from here
    /// on, by the Error Estimates of both. Told first, and when it has grown.
    #[serde(rename = "clock.bounded")]
    ClockBounded {
        /// At most so far, in ns: the sum of the two below at this moment, rounded up to a power of two.
        error_ns: u64,
        /// This host's clock, in ns.
        local_ns: u64,
        /// The reflector's clock, in ns.
        remote_ns: u64,
    },
    /// The wall clock was set.
    #[serde(rename = "clock.stepped")]
    ClockStepped {
        /// By how much, in ns; positive is forward.
        step_ns: i64,
    },
    /// A cloud announced maintenance, or what it announced changed.
    #[serde(rename = "maintenance")]
    Maintenance {
        /// Host of the notice: `local` (this host; recordings omit it), `remote` (the reflector's host; the reflector
        /// passed the notice on) or `other` (machines that are not known to be either).
        #[serde(default = "super::modes::local", skip_serializing_if = "super::modes::is_local")]
        host: String,
        /// `azure`, `aws` or `gcp`.
        cloud: String,
        /// The cloud's name for the notice, where it gives one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        /// What will be done, in the cloud's word (`Freeze`, `Reboot`, `MIGRATE_ON_HOST_MAINTENANCE`).
        what: String,
        /// How far it is: `scheduled`, `started` or `gone` (the clouds do not say that it is over; it disappears).
        state: String,
        /// When it may begin, where the cloud says.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        not_before: Option<Timestamp>,
        /// How long it is expected to take, in ns, where the cloud says.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        duration_ns: Option<u64>,
        /// The notice as the cloud's metadata service gave it.
        notice: serde_json::Value,
    },
    /// An end of the path, or what it goes through on this host, is another than before.
    #[serde(rename = "address.changed")]
    AddressChanged {
        /// What changed: `remote` (where the target's name leads; also where a recording does not say), `source` (the
        /// address here), `interface` (by which packets leave), `driver`, `virtual_function`, `lower`, `mtu`, `tso`,
        /// `gso`, `gro` or `lro` of that interface.
        #[serde(default = "super::modes::remote")]
        what: String,
        /// What it was before.
        from: String,
        /// What it is now.
        to: String,
    },
    /// A background load has settled: samples sent from here on are loaded ones.
    #[serde(rename = "load.began")]
    LoadBegan {
        /// Bits a second that it was asked to send, each way; absent: as many as its connections take.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        asked_bits_per_s: Option<u64>,
        /// Connections that carry it.
        connections: u32,
        /// From the order to run until it had settled, in ns.
        rising_ns: u64,
    },
    /// A background load has been told to stop: samples sent from here on are loaded ones no more.
    #[serde(rename = "load.ended")]
    LoadEnded {
        /// From `load.began` to here, in ns.
        duration_ns: u64,
        /// Payload bytes sent in that time.
        sent_bytes: u64,
        /// Payload bytes of echoes received in that time.
        echoed_bytes: u64,
        /// What was achieved there, bits a second.
        sent_bits_per_s: u64,
        /// What was achieved back, bits a second.
        echoed_bits_per_s: u64,
        /// What ended it early, if something did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// Samples that were due could not be sent and were left out.
    #[serde(rename = "schedule.overrun")]
    ScheduleOverrun {
        /// Samples left out.
        skipped: u64,
        /// How late the earliest of them was when it was given up, in ns.
        behind_ns: u64,
        /// `late` (this process did not run), `blocked` (the connection took no more data) or `unconnected`.
        reason: String,
    },
    /// Samples in flight when their run ended, before their time-out. They are neither answered nor lost, and have no
    /// row.
    #[serde(rename = "samples.in_flight")]
    SamplesInFlight {
        /// Number of samples on the event's connection.
        samples: u64,
    },
    /// The schedule of this path has ended: nothing more will be due. Its last event but for the ends of connections.
    #[serde(rename = "schedule.ended")]
    ScheduleEnded {
        /// Samples that were due, whether they were sent or not.
        due: u64,
    },
    /// How far a path has come while some of its samples are out for more than 100 ms. Told once a second as long as that lasts, by
    /// each probing thread of what is its own. Never in an event log: the recorder keeps the latest beside it, for a recovery.
    #[serde(rename = "schedule.progress")]
    ScheduleProgress {
        /// Samples that were due, whether they were sent or not; 0: there are several probing threads.
        due: u64,
        /// How many were sent on each connection that waits for an echo for so long.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        sent: BTreeMap<u32, u64>,
    },
    /// Echoes whose bytes differ from what was sent.
    #[serde(rename = "echo.corrupted")]
    EchoCorrupted {
        /// The first such sample since the last such event.
        seq: u64,
        /// How many since then.
        count: u64,
    },
    /// Bytes came that are no echo of ours.
    #[serde(rename = "echo.foreign")]
    EchoForeign {
        /// How many bytes (UDP: datagrams) since the last such event.
        count: u64,
        /// The first of them, as text with escapes.
        first: String,
    },
    /// An echo came again (UDP).
    #[serde(rename = "echo.duplicated")]
    EchoDuplicated {
        /// The sample of the first since the last such event.
        seq: u64,
        /// How many since then.
        count: u64,
    },
    /// A stretch of one stream of a throughput test (about a second).
    #[serde(rename = "throughput.interval")]
    ThroughputInterval(ThroughputInterval),
    /// A throughput test ended: what it came to.
    #[serde(rename = "throughput.ended")]
    ThroughputEnded {
        /// As `fathom probe --throughput --json` prints it (`schema/throughput.md`).
        summary: serde_json::Value,
    },
    /// A search for limits began.
    #[serde(rename = "limits.began")]
    LimitsBegan(LimitsBegan),
    /// A connection of a search for limits has been judged.
    #[serde(rename = "limits.judged")]
    LimitsJudged {
        /// For how long it was to be idle, or how old it was to become, in ns.
        length_ns: u64,
        /// What became of it.
        became: Became,
        /// By this host's clock it had been idle for so long when it was asked, or at the most when it was seen to end, in ns. Absent: not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        asked_ns: Option<u64>,
        /// It was idle, or lived, for so long at the least, in ns. Absent: not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        least_ns: Option<u64>,
        /// It had been idle, or had lived, for so long at the most when it died, in ns. Absent: it did not die.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        most_ns: Option<u64>,
        /// How much of that is doubt about when its request arrived, in ns. Absent: none of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        doubt_ns: Option<u64>,
        /// How it died. Absent: it did not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        how: Option<Death>,
    },
    /// Connections in use that live, of a search for the age limit: those that became older since the last such event.
    #[serde(rename = "limits.lived")]
    LimitsLived {
        /// Each, and its age.
        lives: Vec<Lived>,
    },
    /// Something happened in a search for limits that is no limit.
    #[serde(rename = "limits.happened")]
    LimitsHappened {
        /// What.
        what: What,
    },
    /// A search for the rate ceiling began.
    #[serde(rename = "ceiling.began")]
    CeilingBegan(CeilingBegan),
    /// A step of it is over.
    #[serde(rename = "ceiling.stepped")]
    CeilingStepped(Box<CeilingStepped>),
    /// A search for limits ended: what it found.
    #[serde(rename = "limits.ended")]
    LimitsEnded {
        /// As `fathom limits --json` prints it (docs/limits.md).
        result: serde_json::Value,
    },
    /// A request of a client ended otherwise than by its answer.
    #[serde(rename = "request.ended")]
    RequestEnded(Ended),
    /// A try of a client's request failed.
    #[serde(rename = "try.failed")]
    TryFailed(TryFailed),
    /// A client's circuit breaker does something else from here on.
    #[serde(rename = "breaker.changed")]
    BreakerChanged(BreakerChanged),
    /// Told by recovery: a client was killed, and some of its requests have no end.
    #[serde(rename = "client.interrupted")]
    ClientInterrupted(Interrupted),
    /// A client ended: what it came to.
    #[serde(rename = "client.ended")]
    ClientEnded {
        /// As `fathom probe --as-client --json` prints it (docs/policies.md).
        result: serde_json::Value,
    },
    /// A run of queries ended: what it came to.
    #[serde(rename = "sql.ended")]
    SqlEnded {
        /// As `fathom sql --json` prints it (docs/databases.md).
        result: serde_json::Value,
    },
    /// A file of queries is full, or the last: it changes no more.
    #[serde(rename = "queries.closed")]
    QueriesClosed {
        /// File name within the recording.
        file: String,
        /// Rows in it.
        rows: u64,
        /// Its size.
        bytes: u64,
        /// CRC-32 (IEEE 802.3) of the whole file.
        crc32: u32,
    },
    /// Told by recovery: queries of a run that was killed, which have no row though later ones have.
    #[serde(rename = "queries.lost")]
    QueriesLost {
        /// How many.
        queries: u64,
    },
    /// What has become known of this connection's datagrams since the last such event: lost which way, twice, out of order.
    #[serde(rename = "loss.attributed")]
    LossAttributed {
        /// The counts.
        #[serde(flatten)]
        losses: Losses,
    },
    /// Samples that were sent and resolved, and have no row.
    #[serde(rename = "recording.overflowed")]
    RecordingOverflowed {
        /// How many: of the event's connection, or of several where it names none.
        lost: u64,
        /// Why: a `LOST_` constant, in words by [`super::why_lost`]. Absent in older recordings: [`super::LOST_BEHIND`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The disk had been full, and has room again: the recording goes on.
    #[serde(rename = "recording.resumed")]
    RecordingResumed {
        /// For how long it had no room, in ns.
        waited_ns: u64,
        /// Samples without a row because of it; each connection's are told by `recording.overflowed`.
        lost: u64,
    },
    /// Anything else worth a line.
    #[serde(rename = "note")]
    Note {
        /// The line.
        text: String,
    },
}
