//! Set-ups whose first SYN, or the answer to it, got lost: the kernel sent it again, a second later or more.

use super::words::count;
use super::{Line, Measured};
use crate::sample::Sample;
use crate::units::duration_text as duration;
use jiff::Timestamp;

/// Set-ups that needed a second SYN, or more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeated {
    /// How many there were.
    pub count: u64,
    /// When the first of them began, in ns since the Unix epoch.
    pub first_ns: i64,
    /// How long the slowest took, in ns.
    pub longest_ns: u64,
}

impl Repeated {
    /// With one more sample; `earlier`: those before it.
    pub(super) fn and(earlier: Option<Self>, sample: &Sample) -> Option<Self> {
        let rtt_ns = sample.rtt_ns.filter(|_| sample.retransmits.is_some_and(|times| times > 0));
        let Some(rtt_ns) = rtt_ns else { return earlier };
        let before = earlier.unwrap_or(Self { count: 0, first_ns: i64::MAX, longest_ns: 0 });
        Some(Self {
            count: before.count + 1,
            first_ns: before.first_ns.min(sample.sent_ns),
            longest_ns: before.longest_ns.max(rtt_ns.max(0) as u64),
        })
    }
}

/// The line of the story about them. `None`: there are none, or the samples are no set-ups.
pub(super) fn line(measured: &Measured, repeated: Option<Repeated>, samples: u64) -> Option<Line> {
    let repeated = repeated.filter(|_| measured.mode.starts_with("connect"))?;
    let at = Timestamp::from_nanosecond(repeated.first_ns.into()).ok()?;
    let statement = format!(
        "{} of {} needed a second SYN or more; the slowest took {}",
        repeated.count,
        count(samples, "connection"),
        duration(repeated.longest_ns)
    );
    let mut line = Line::fact(at, statement);
    line.evidence = vec![
        "the first SYN or its answer was lost on the way, or the server's queue of new connections was full"
            .to_owned(),
        "this host's kernel sent it again, by default after 1 s, 3 s and 7 s (RFC 6298)".to_owned(),
    ];
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::super::{Gatherer, State, tell};
    use super::*;

    const S: i64 = 1_000_000_000;

    fn story(mode: &str, retransmits: &[Option<u16>]) -> Vec<String> {
        let mut gatherer = Gatherer::new(&[]);
        for (n, &times) in retransmits.iter().enumerate() {
            let rtt_ns = 300_000 + i64::from(times.unwrap_or(0)) * S;
            let sent_ns = 1_800_000_000 * S + n as i64 * S;
            gatherer.sample(&Sample {
                rtt_ns: Some(rtt_ns),
                sent_ns,
                retransmits: times,
                ..Sample::default()
            });
        }
        let measured = Measured {
            label: "db".to_owned(),
            reflector: "db:5432".to_owned(),
            mode: mode.to_owned(),
            size: 0,
            interval_ns: Some(S as u64),
            started_at: Timestamp::from_second(1_800_000_000).expect("a time"),
            ended_at: None,
            state: State::Finished,
        };
        tell(&measured, &[], &gatherer.finish()).into_iter().map(|line| line.statement).collect()
    }

    /// Six of sixty connections took a second: "nothing happened".
    #[test]
    fn repeated_syn_is_counted_and_explained() {
        let of = |mode| story(mode, &[Some(0), Some(1), Some(0), Some(2), None]);
        for mode in ["connect", "connect-tls"] {
            let lines = of(mode);
            assert!(
                lines.contains(
                    &"2 of 5 connections needed a second SYN or more; the slowest took 2 s".to_owned()
                ),
                "{lines:?}"
            );
            assert!(!lines.iter().any(|line| line.contains("nothing happened")), "{lines:?}");
        }
        assert!(!of("tcp").iter().any(|line| line.contains("SYN")));
        assert!(story("connect", &[Some(0), None]).iter().any(|line| line.contains("nothing happened")));
    }
}
