//! Hosts that stand still, and reflectors that are restarted.

use std::collections::HashMap;

use super::{Item, Simulation};
use crate::scenario::Restart;
use crate::truth::{Truth, What};
use crate::world::HostId;

/// What the truth calls the restart of a reflector.
pub(super) const RESTART: &str = "reflector-restart";

/// When a host did not run.
#[derive(Debug, Default)]
pub(super) struct StoodStill {
    /// Events that have it stand still now.
    events: u32,
    /// From, to (none while it goes on), oldest first.
    pub(super) pauses: Vec<(u64, Option<u64>)>,
}

/// A reflector's process ends (`down_ns`: for how long nothing listens then) or another one begins.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) at_ns: u64,
    host: String,
    down_ns: Option<u64>,
}

/// What is to be done about restarts, the first of it last.
pub(super) fn turns(restarts: &[Restart]) -> Vec<Turn> {
    let ends = restarts.iter().map(|restart| (restart.at_ns, restart, Some(restart.down_ns)));
    let begins =
        restarts.iter().map(|restart| (restart.at_ns.saturating_add(restart.down_ns), restart, None));
    let turn = |(at_ns, restart, down_ns): (u64, &Restart, Option<u64>)| Turn {
        at_ns,
        host: restart.host.clone(),
        down_ns,
    };
    let mut turns: Vec<Turn> = ends.chain(begins).map(turn).collect();
    turns.sort_by_key(|turn| std::cmp::Reverse(turn.at_ns));
    turns
}

/// How many restarts have a host's reflector down now, by the host's name.
pub(super) type Down = HashMap<String, u32>;

impl Simulation {
    /// Hosts that are frozen do not run.
    pub(super) fn note_freeze(&mut self, truth: &Truth) {
        let Some(begins) = truth.stands_still() else { return };
        let Some(id) = self.world.host(&truth.place) else { return };
        let StoodStill { events: standing, pauses } = self.pauses.entry(truth.place.clone()).or_default();
        // Two pauses may overlap: it runs when the last one is over, and knows of one.
        *standing = if begins { *standing + 1 } else { standing.saturating_sub(1) };
        match (pauses.last_mut().filter(|pause| pause.1.is_none()), *standing) {
            (None, 1..) => pauses.push((truth.at_ns, None)),
            (Some(pause), 0) => {
                pause.1 = Some(truth.at_ns);
                let (now, duration_ns) = (self.now_ns, truth.at_ns - pause.0);
                self.hosts
                    .iter_mut()
                    .filter(|host| host.id == id)
                    .for_each(|host| host.paused(now, duration_ns));
            }
            _ => {}
        }
        let frozen = *standing > 0;
        self.freeze(id, frozen);
    }

    fn freeze(&mut self, id: HostId, frozen: bool) {
        for host in self.hosts.iter_mut().filter(|host| host.id == id) {
            host.frozen = frozen;
            if !frozen {
                host.thaw(self.now_ns);
            }
        }
    }

    /// Ends and begins the processes of reflectors whose turn it is.
    pub(super) fn restart_reflectors(&mut self) {
        let now = self.now_ns;
        while let Some(turn) = self.restarts.pop_if(|turn| turn.at_ns <= now) {
            let Some(id) = self.world.host(&turn.host) else { continue };
            // Two restarts may overlap: the next process begins when the last of them is over.
            let down = self.down.entry(turn.host.clone()).or_default();
            *down = if turn.down_ns.is_some() { *down + 1 } else { down.saturating_sub(1) };
            let runs = *down == 0;
            for host in self.hosts.iter_mut().filter(|host| host.id == id) {
                if runs {
                    host.start_reflector(now);
                } else {
                    host.stop_reflector(now);
                }
            }
            let event = RESTART.to_owned();
            let what = match turn.down_ns {
                Some(down_ns) => {
                    What::EventBegan { event, parameters: serde_json::json!({ "down_ns": down_ns }) }
                }
                None => What::EventEnded { event },
            };
            self.ready.push_back(Item::Truth(Truth { at_ns: now, place: turn.host, what }));
        }
    }
}
