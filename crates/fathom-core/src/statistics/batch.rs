//! Samples that were counted by who took them, and are added to the statistics of their run together.

use super::Statistics;
use crate::sample::Sample;
use crate::strip::{Second, Strip};
use std::collections::BTreeMap;

/// More seconds than any batch has.
const SECONDS: usize = 600;

/// What resolved samples come to: of a run of one size, without load and without silences. Counting costs whoever takes the
/// samples some tens of ns each; [`Statistics::batch`] costs the same for one sample and for many.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    statistics: Statistics,
    by_connection: BTreeMap<u32, u64>,
    strip: Strip,
    last: Option<Sample>,
}

impl Batch {
    /// Adds a resolved sample.
    pub fn sample(&mut self, sample: &Sample) {
        self.statistics.sample(sample);
        *self.by_connection.entry(sample.connection).or_default() += 1;
        self.strip.entry(sample.sent_ns.div_euclid(1_000_000_000), SECONDS).add(sample);
        self.last = Some(*sample);
    }

    /// The sample that was added last.
    pub fn last(&self) -> Option<&Sample> {
        self.last.as_ref()
    }

    /// The samples by the second in which they were sent.
    pub fn seconds(&self) -> impl Iterator<Item = Second> {
        self.strip.seconds()
    }
}

impl Statistics {
    /// Adds samples that were counted in a batch, as if each were added now.
    pub fn batch(&mut self, batch: &Batch) {
        let other = &batch.statistics;
        let sum = [
            (&mut self.samples, other.samples),
            (&mut self.answered, other.answered),
            (&mut self.late, other.late),
            (&mut self.unanswered, other.unanswered),
            (&mut self.corrupt, other.corrupt),
            (&mut self.warm_up, other.warm_up),
        ];
        for (mine, more) in sum {
            *mine += more;
        }
        self.rtt.merge(&other.rtt);
        self.latency.merge(&other.latency);
        self.lateness.merge(&other.lateness);
        self.first_sample.merge(&other.first_sample);
        self.first_size = self.first_size.or(other.first_size);
        self.last_sent_ns = other.last_sent_ns.or(self.last_sent_ns);
        if let Some((first, last)) = other.span_ns {
            let (begin, end) = self.span_ns.unwrap_or((first, last));
            self.span_ns = Some((begin.min(first), end.max(last)));
        }
        for (connection, samples) in &batch.by_connection {
            if let Some(connection) = self.connections.get_mut(connection) {
                connection.samples += samples;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Event, EventKind};
    use crate::sample::Flags;
    use jiff::Timestamp;
    use std::time::{Duration, Instant};

    /// How long samples of so many connections in turn take, at the least of some times.
    fn taking(connections: u32) -> Duration {
        let times = (0..3).map(|_| {
            let (mut batch, began) = (Batch::default(), Instant::now());
            for n in 0..20_000 {
                batch.sample(&Sample {
                    connection: n % connections,
                    rtt_ns: Some(1_000),
                    ..Sample::default()
                });
            }
            assert_eq!(batch.by_connection.len(), connections as usize);
            began.elapsed()
        });
        times.min().expect("some")
    }

    /// Back to back over many connections each sample was looked for among all of them.
    #[test]
    fn many_connections_take_no_longer_than_few() {
        let (few, many) = (taking(2), taking(10_000));
        assert!(many < few * 30, "{many:?} for many, {few:?} for few");
    }

    /// Whatever comes, and wherever it is cut into batches: the statistics are those of the samples one by one.
    #[test]
    fn batches_come_to_what_their_samples_come_to() {
        let mut opened = Vec::new();
        for connection in 0..3 {
            let [target, local, remote] = ["t", "l", "r"].map(String::from);
            let (connect_ns, tls_ns, interface, lane) = (500, None, None, None);
            let kind =
                EventKind::ConnectionOpened { target, local, remote, connect_ns, tls_ns, interface, lane };
            let (at, mono_ns) = (Timestamp::UNIX_EPOCH, 0);
            opened.push(Event { at, mono_ns, connection: Some(connection), kind });
        }
        let flags = [
            Flags::default(),
            Flags::WARM_UP,
            Flags::FIRST_ON_CONNECTION,
            Flags::ANSWERED_LATE,
            Flags::UNANSWERED,
            Flags::UNANSWERED | Flags::CORRUPTED,
        ];
        let sample = |seq: u64| {
            let flags = flags[(seq * 7 / 3 % 6) as usize];
            let rtt_ns = (!flags.contains(Flags::UNANSWERED)).then_some((seq * seq % 90_001) as i64);
            let sent_ns = (seq as i64 - 40) * 90_000_000;
            let (connection, lateness_ns) = ((seq / 5 % 4) as u32, (seq % 11) as i64);
            Sample { connection, seq, size: 64, sent_ns, lateness_ns, rtt_ns, flags, ..Sample::default() }
        };
        for cut in [1, 2, 37, 1_000] {
            let (mut one_by_one, mut batched) = (Statistics::default(), Statistics::default());
            let (mut seconds, mut strip) = (Strip::default(), Strip::default());
            for event in &opened {
                one_by_one.event(event);
                batched.event(event);
            }
            let mut batch = Batch::default();
            for seq in 0..1_000 {
                let sample = sample(seq);
                one_by_one.sample(&sample);
                seconds.entry(sample.sent_ns.div_euclid(1_000_000_000), SECONDS).add(&sample);
                batch.sample(&sample);
                if (seq + 1) % cut == 0 || seq == 999 {
                    assert_eq!(batch.last(), Some(&sample));
                    batched.batch(&batch);
                    batch.seconds().for_each(|s| strip.entry(s.utc_s, SECONDS).merge(&s));
                    batch = Batch::default();
                }
            }
            assert_eq!(format!("{one_by_one:?}"), format!("{batched:?}"), "cut every {cut}");
            assert_eq!(strip.seconds().collect::<Vec<_>>(), seconds.seconds().collect::<Vec<_>>());
            assert_eq!(batched.connections[&0].samples, 250);
        }
    }
}
