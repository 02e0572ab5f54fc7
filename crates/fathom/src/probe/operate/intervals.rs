//! `--interval-report`: when lines are due, and the lines.

use crate::probe::config::Config;
use crate::probe::live_state::{LiveStates, lock};
use fathom_core::interval::{Before, Looks};
use jiff::Timestamp;
use std::time::Duration;

/// The intervals of a run's paths. Times are of the monotonic clock.
pub(in crate::probe) struct Intervals<'a> {
    config: &'a Config,
    looks: Looks,
    before: Vec<Before>,
}

impl<'a> Intervals<'a> {
    /// None: they are not asked for.
    pub(in crate::probe) fn of(config: &'a Config, now_ns: u64) -> Option<Self> {
        let every = config.operate.interval?;
        let before = config.paths.iter().map(|_| Before::new(now_ns)).collect();
        Some(Self { config, looks: Looks::new(every.as_nanos() as u64, now_ns), before })
    }

    /// How long until lines are due.
    pub(in crate::probe) fn due_in(&self, now_ns: u64) -> Duration {
        Duration::from_nanos(self.looks.due_in_ns(now_ns))
    }

    /// The lines of an interval that ends now, if one does.
    pub(in crate::probe) fn due(&mut self, now_ns: u64, live: &LiveStates) -> Option<String> {
        self.looks.is_due(now_ns).then(|| self.lines(now_ns, live))
    }

    /// The lines of what there was since, whenever that is; a run's last ones.
    pub(in crate::probe) fn lines(&mut self, now_ns: u64, live: &LiveStates) -> String {
        let (at, live) = (Timestamp::now(), lock(live));
        let each = self.config.paths.iter().zip(live.iter()).zip(&mut self.before);
        let line = |((path, state), before): ((&crate::probe::config::Path, _), &mut Before)| {
            let state: &crate::probe::live_state::LiveState = state;
            let interval = before.look(now_ns, &state.statistics);
            if self.config.json {
                let target = path.target.to_string();
                format!("{}\n", interval.json(at, &path.label, &target, &self.config.marks))
            } else {
                format!("{}\n", interval.text(at, &path.label))
            }
        };
        each.map(line).collect()
    }
}
