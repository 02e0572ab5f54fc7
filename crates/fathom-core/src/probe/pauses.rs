//! The times in which this host did not run: to flag samples, and to judge silences by.

use std::collections::VecDeque;

/// Pauses remembered, to be laid against silences that end later.
const REMEMBERED: usize = 64;

/// What is known of this host's pauses.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    /// From, to; those that ended first come first.
    recent: VecDeque<(u64, u64)>,
    /// Those that have just ended, by the driver, and that the pause clock has not told; those that ended first come first.
    untold: VecDeque<(u64, u64)>,
}

impl Pauses {
    /// The pause clock has told a pause.
    pub(super) fn told(&mut self, began_ns: u64, ended_ns: u64) {
        keep(&mut self.recent, (began_ns, ended_ns));
        self.untold.retain(|pause| !overlap(*pause, (began_ns, ended_ns)));
    }

    /// A pause ended just now; it will be told.
    pub(super) fn ended_just_now(&mut self, began_ns: u64, ended_ns: u64) {
        if self.recent.iter().any(|pause| overlap(*pause, (began_ns, ended_ns))) {
            return;
        }
        keep(&mut self.untold, (began_ns, ended_ns));
    }

    /// The latest pause: from, to.
    pub(super) fn latest(&self) -> Option<(u64, u64)> {
        self.untold.back().into_iter().chain(self.recent.back()).max_by_key(|pause| pause.1).copied()
    }

    /// For how long this host did not run between two moments.
    pub(super) fn within(&self, from_ns: u64, to_ns: u64) -> u64 {
        let all = self.recent.iter().chain(&self.untold).copied();
        all.map(|(began, ended)| ended.min(to_ns).saturating_sub(began.max(from_ns))).sum()
    }
}

/// Of a pause that is told in pieces the first may come last.
fn keep(pauses: &mut VecDeque<(u64, u64)>, pause: (u64, u64)) {
    let at = pauses.partition_point(|other| other.1 <= pause.1);
    pauses.insert(at, pause);
    if pauses.len() > REMEMBERED {
        pauses.pop_front();
    }
}

fn overlap(one: (u64, u64), other: (u64, u64)) -> bool {
    one.0 < other.1 && other.0 < one.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pause_reported_twice_counts_once() {
        let mut pauses = Pauses::default();
        pauses.told(100, 200);
        pauses.ended_just_now(300, 450);
        assert_eq!((pauses.latest(), pauses.within(0, 1_000)), (Some((300, 450)), 250));
        // The clock's own account of it is a little longer.
        pauses.told(295, 455);
        assert_eq!((pauses.latest(), pauses.within(0, 1_000)), (Some((295, 455)), 260));
        // What has been told is not pending again.
        pauses.ended_just_now(300, 450);
        assert_eq!(pauses.within(0, 1_000), 260);
        assert_eq!(pauses.within(150, 310), 65);
        pauses.told(210, 280);
        assert_eq!((pauses.latest(), pauses.within(0, 1_000)), (Some((295, 455)), 330));
        // One in pieces, of which the clock tells the first.
        pauses.ended_just_now(700, 800);
        pauses.ended_just_now(500, 600);
        assert_eq!(pauses.latest(), Some((700, 800)));
        pauses.told(500, 600);
        assert_eq!((pauses.latest(), pauses.within(500, 1_000)), (Some((700, 800)), 200));
    }
}
