//! A proxy or balancer between the probe and the server. If the handshake is much shorter than the shortest round trip,
//! something nearer answers the handshake, or the server is slow: a handshake and a small message take the same path.

use super::{Confidence, Gathered, Line, Measured};
use crate::event::{Event, EventKind};
use crate::units::duration_text as duration;

/// Largest payload, in bytes, of a message that takes as long as a handshake on a slow path.
const SMALL: u32 = 256;
/// Minimum number of round trips for a reliable shortest one.
const FEW: u64 = 8;
/// Scheduling delay of server and host in a round trip. A handshake has none, because kernels answer it.
const NOISE_NS: u64 = 500_000;

/// The line about it, for recordings of requests over lasting connections.
pub(super) fn line(measured: &Measured, events: &[Event], gathered: &Gathered) -> Option<Line> {
    let asks = matches!(measured.mode.as_str(), "tcp" | "tcp-ping-pong");
    let is_small = (1..=SMALL).contains(&measured.size) && gathered.queries.is_none();
    if !(asks && is_small) || gathered.whole.count < FEW {
        return None;
    }
    let connect_ns = usual_connect_ns(events)?;
    let shortest = gathered.shortest?;
    // A queue that never empties spreads the round trips; that spread is no sign of a proxy.
    let spread_ns = gathered.whole.p50_ns.map_or(0, |p50_ns| p50_ns.saturating_sub(shortest.whole_ns));
    let behind_ns = shortest.besides_server_ns.saturating_sub(connect_ns);
    if behind_ns <= connect_ns || behind_ns <= NOISE_NS.max(spread_ns) {
        return None;
    }
    let (connect, behind) = (duration(connect_ns), duration(behind_ns));
    let (statement, confidence) = if shortest.is_stamped {
        let statement = format!(
            "something between answers the handshake, a proxy or load balancer: connections are made in {connect}, and no round trip \
             takes less than {} without the reflector's own time. About {connect} of each are the path to it, and {behind} lie behind it",
            duration(shortest.besides_server_ns)
        );
        (statement, Confidence::Medium)
    } else {
        let statement = format!(
            "connections are made in {connect}, and no round trip takes less than {}: a proxy or load balancer between answers the \
             handshake, or the server takes that long for each answer. About {connect} of each are the path to what answers the \
             handshake; whose the other {behind} are is not known",
            duration(shortest.whole_ns)
        );
        (statement, Confidence::None)
    };
    Some(Line { confidence, ..Line::fact(measured.started_at, statement) })
}

/// The median time to make a connection. A lost first packet adds a second to one of them.
fn usual_connect_ns(events: &[Event]) -> Option<u64> {
    let connect_ns = |event: &Event| match event.kind {
        EventKind::ConnectionOpened { connect_ns, .. } => u64::try_from(connect_ns).ok().filter(|&ns| ns > 0),
        _ => None,
    };
    let mut all: Vec<u64> = events.iter().filter_map(connect_ns).collect();
    all.sort_unstable();
    all.get(all.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;
    use crate::story::{Gatherer, State};
    use jiff::Timestamp;

    const US: i64 = 1_000;
    const MS: i64 = 1_000 * US;

    fn told(mode: &str, connects_ns: &[i64], rtts_ns: &[i64], reflector_ns: Option<i64>) -> Option<String> {
        let opened = |(id, &connect_ns): (usize, &i64)| Event {
            at: Timestamp::UNIX_EPOCH,
            mono_ns: id as u64,
            connection: Some(id as u32),
            kind: EventKind::ConnectionOpened {
                target: String::new(),
                local: String::new(),
                remote: String::new(),
                connect_ns,
                tls_ns: None,
                interface: None,
                lane: None,
            },
        };
        let events: Vec<Event> = connects_ns.iter().enumerate().map(opened).collect();
        let mut gatherer = Gatherer::new(&events);
        for (seq, &rtt_ns) in rtts_ns.iter().enumerate() {
            let seq = seq as u64;
            let sent_ns = seq as i64 * 100 * MS;
            gatherer.sample(&Sample {
                seq,
                size: 64,
                sent_ns,
                rtt_ns: Some(rtt_ns),
                reflector_ns,
                ..Sample::default()
            });
        }
        let measured = Measured {
            label: String::new(),
            reflector: String::new(),
            mode: mode.to_owned(),
            size: 64,
            interval_ns: None,
            started_at: Timestamp::UNIX_EPOCH,
            ended_at: None,
            state: State::Finished,
        };
        line(&measured, &events, &gatherer.finish()).map(|line| line.statement)
    }

    #[test]
    fn short_handshake_beside_long_round_trips_is_told() {
        let rtts: Vec<i64> = (0..50).map(|n| 21 * MS + n * 10 * US).collect();
        let text = told("tcp", &[190 * US], &rtts, None).expect("a line");
        for words in ["made in 190 µs", "less than 21 ms", "proxy or load balancer", "is not known"] {
            assert!(text.contains(words), "{words}: {text}");
        }
        // The reflector's stamps show whether it took the time itself.
        let text = told("tcp", &[190 * US], &rtts, Some(5 * US)).expect("a line");
        assert!(text.contains("lie behind it") && !text.contains("server"), "{text}");
        assert_eq!(told("tcp", &[190 * US], &rtts, Some(20_900 * US)), None);
    }

    #[test]
    fn what_explains_itself_names_no_third_party() {
        let around = |ns: i64| -> Vec<i64> { (0..50).map(|n| ns + n * ns / 100).collect() };
        for (what, connects, rtts) in [
            ("alike", vec![20 * MS], around(21 * MS)),
            ("a slow handshake", vec![1_020 * MS], around(21 * MS)),
            ("on one host", vec![30 * US], around(300 * US)),
            ("few round trips", vec![190 * US], vec![21 * MS; 7]),
            ("a queue now and then", vec![190 * US], [&around(700 * US)[..40], &around(50 * MS)].concat()),
            ("nothing connected", vec![], around(21 * MS)),
        ] {
            assert_eq!(told("tcp", &connects, &rtts, None), None, "{what}");
        }
        assert_eq!(told("udp", &[190 * US], &around(21 * MS), None), None);
        // One SYN of three was lost.
        assert!(told("tcp", &[1_000 * MS, 190 * US, 200 * US], &around(21 * MS), None).is_some());
    }
}
