//! Presets on real hosts: what the packet log says that the fabric did has the model's figures, and what `fathom probe`
//! measured is that and more. `benches/presets.py` does the same for all presets, with bounds in microseconds.
use crate::support::fabric::{Fabric, Packet, preset};
use crate::support::probe::fathom;
use crate::support::rows::{Row, parse, rows};
use crate::support::{FATHOM, must, wait_for};
use serde_json::Value;

/// Near and far, narrow and wide; straight, by a balancer, by a firewall, by a private endpoint; fastest first.
const PRESETS: [&str; 5] = [
    "azure-same-host",
    "azure-lb-same-zone",
    "azure-hub-firewall",
    "azure-cross-region",
    "azure-transatlantic-private-endpoint",
];
/// A probe measures until so many samples went out for themselves (see [`ALONE_NS`]), however busy this machine is.
const SAMPLES: usize = 500;
const EVERY_NS: i64 = 5_000_000;
/// IPv4 and TCP headers with the timestamps option (RFC 7323), which Linux sends by default.
const HEADERS: u32 = 52;
const SAMPLE: u32 = 64;
/// The probe and the fabric turn the same monotonic clock into UTC by anchors of their own, on a busy machine.
const SLACK_NS: i64 = 500_000;

/// A packet that comes later than this after the one before it cannot catch up with it on these paths: it takes as long
/// as was drawn for it. Those that a busy host sends together keep their order.
const ALONE_NS: i64 = 3_000_000;

/// A packet with a sample or an echo in it.
#[derive(Clone)]
struct Message {
    packet: Packet,
    alone: bool,
}

/// A sample, with its request and its echo.
struct Joined {
    rtt_ns: i64,
    messages: [Message; 2],
}

impl Joined {
    /// What the fabric meant them to take.
    fn drawn_ns(&self) -> i64 {
        self.messages.iter().map(|m| m.packet.due_ns - m.packet.in_ns).sum()
    }

    /// What they took in the fabric.
    fn took_ns(&self) -> i64 {
        self.messages.iter().map(|m| m.packet.out_ns - m.packet.in_ns).sum()
    }
}

/// The model of a preset's first path, and where so many samples may lie by chance.
fn model(name: &str, samples: usize) -> Value {
    let file = format!("{}/../../scenarios/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    let models = must(FATHOM, &["fabric", "model", &file, "--json", "--samples", &samples.to_string()]);
    serde_json::from_str(models.lines().next().expect("a path")).expect("JSON")
}

/// Samples on a preset's first path, with their packets.
fn measure(name: &str) -> Option<Vec<Joined>> {
    let fabric = Fabric::up(&preset(name))?;
    let model = model(name, SAMPLES);
    let word = |key: &str| model[key].as_str().unwrap_or_else(|| panic!("{key}: {model}"));
    let _reflector = fabric.reflector(word("to"));
    let arguments = format!("{} --source {} --every {EVERY_NS}ns", word("target"), word("source"));
    let probe = fabric.probe(word("from"), "r", &arguments);
    wait_for("samples for themselves", || (sent_alone(&fabric) >= SAMPLES).then_some(()));
    probe.signal("TERM");
    probe.finish().summary();
    let mut rows = rows(&fabric.path("r"));
    // What was on its way at the end.
    rows.retain(|row| row.rtt_ns().is_some());
    let truth = fabric.down();
    assert!(truth.of_kind("packet.dropped").is_empty(), "{name}: nothing is lost on these paths");
    let messages = |host: &str| messages(&truth.packets, word("path"), host);
    let joined = join(&rows, &messages(word("from")), &messages(word("to")));
    assert!(joined.len() * 100 >= rows.len() * 99, "{name}: {} of {} in the log", joined.len(), rows.len());
    Some(joined)
}

/// How many samples of the recording that is being written went out for themselves.
fn sent_alone(fabric: &Fabric) -> usize {
    // Refused while there is no recording yet.
    let export = fathom(fabric.home(), &["recording", "export", "r"]);
    let rows = if export.code() == 0 { parse(&export.out) } else { Vec::new() };
    let alone = |pair: &&[Row]| pair[1].at("sent_ns") - pair[0].at("sent_ns") >= ALONE_NS;
    rows.windows(2).filter(alone).count()
}

/// The samples, or echoes, that a host sent on a path, in order; a packet may hold several.
fn messages(packets: &[Packet], path: &str, host: &str) -> Vec<Message> {
    let mut last_ns = 0;
    let mut messages = Vec::new();
    for packet in packets.iter().filter(|packet| packet.path == path && packet.from == host) {
        let alone = packet.in_ns - last_ns >= ALONE_NS;
        last_ns = packet.in_ns;
        for _ in 0..packet.size.saturating_sub(HEADERS) / SAMPLE {
            messages.push(Message { packet: packet.clone(), alone });
        }
    }
    messages
}

/// The first message since a sample was sent is its own, and its echo is the first one not yet taken that was sent
/// after that came out. What was sent again finds no sample, and is passed over.
fn join(rows: &[Row], requests: &[Message], echoes: &[Message]) -> Vec<Joined> {
    let mut joined = Vec::new();
    let (mut requests, mut echoes) = (requests.iter().peekable(), echoes.iter().peekable());
    for row in rows {
        let (sent_ns, rtt_ns) = (row.at("sent_ns"), row.rtt_ns().expect("all are answered"));
        let back_ns = sent_ns + rtt_ns + SLACK_NS;
        while requests.next_if(|m| m.packet.in_ns < sent_ns - SLACK_NS).is_some() {}
        let Some(request) = requests.next_if(|m| m.packet.in_ns <= back_ns) else { continue };
        while echoes.next_if(|m| m.packet.in_ns < request.packet.out_ns).is_some() {}
        let Some(echo) = echoes.next_if(|m| m.packet.out_ns <= back_ns) else { continue };
        joined.push(Joined { rtt_ns, messages: [request.clone(), echo.clone()] });
    }
    joined
}

/// What the fabric drew has the model's mean and p95: within 1 % and 5 µs beyond what chance does to so few samples.
fn assert_follows(name: &str, joined: &[Joined]) {
    let alone = joined.iter().filter(|sample| sample.messages.iter().all(|message| message.alone));
    let mut drawn: Vec<i64> = alone.map(Joined::drawn_ns).collect();
    // The reflector may have sent the echoes of some of them together.
    assert!(drawn.len() >= SAMPLES / 4, "{name}: only {} of {} for themselves", drawn.len(), joined.len());
    let model = model(name, drawn.len());
    drawn.sort_unstable();
    let mean = drawn.iter().sum::<i64>() / drawn.len() as i64;
    for (statistic, found) in [("mean", mean), ("p95", drawn[drawn.len() * 95 / 100])] {
        let allowed = model["rtt_ns"][statistic].as_i64().expect("ns") / 100 + 5_000;
        let bound = |i: usize| model["chance"][statistic][i].as_i64().expect("ns");
        assert!(
            (bound(0) - allowed..=bound(1) + allowed).contains(&found),
            "{name}: {statistic} {found} ns; {model}"
        );
    }
}

/// A probe measures what the fabric did, and its hosts' own time on top: sample by sample not less; and where samples
/// took longer in the fabric it measured more.
fn assert_measures(name: &str, joined: &[Joined]) {
    let less = joined.iter().filter(|sample| sample.rtt_ns < sample.took_ns()).count();
    // A sample whose packet was sent again may have been joined with the wrong one of them.
    assert!(less * 100 <= joined.len(), "{name}: {less} of {} took longer in the fabric", joined.len());
    // Those to which this machine added least, so that what it adds to the others decides nothing.
    let mut least: Vec<&Joined> = joined.iter().filter(|sample| sample.rtt_ns >= sample.took_ns()).collect();
    least.sort_by_key(|sample| sample.rtt_ns - sample.took_ns());
    least.truncate(joined.len() / 10);
    least.sort_by_key(|sample| sample.took_ns());
    let (short, long) = least.split_at(least.len() / 2);
    let measured = |half: &[&Joined]| median(half.iter().map(|sample| sample.rtt_ns));
    assert!(measured(short) < measured(long), "{name}: {} and {} ns", measured(short), measured(long));
}

fn median(values: impl Iterator<Item = i64>) -> i64 {
    let mut values: Vec<i64> = values.collect();
    values.sort_unstable();
    values[values.len() / 2]
}

mod acceptance {
    use super::*;

    #[test]
    fn presets_match_model_and_probe_measurements() {
        let mut fastest = Vec::new();
        for name in PRESETS {
            let Some(joined) = measure(name) else { return };
            assert_follows(name, &joined);
            assert_measures(name, &joined);
            fastest.push(joined.iter().map(|sample| sample.rtt_ns).min());
        }
        assert!(
            fastest.is_sorted(),
            "{PRESETS:?} differ by far more than this machine adds at its best: {fastest:?}"
        );
    }
}
