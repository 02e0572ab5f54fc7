//! From one document to the next: what is new, what has changed, what is gone.

use super::{Cloud, Document, Notice, State};
use crate::event::EventKind;

/// A start that moved by less than this is the same start, told again with another rounding.
const MOVED_NS: i128 = 60_000_000_000;

/// What a cloud has announced so far.
///
/// An event is told when a notice appears, when it changes from scheduled to started (or back), when its start is put
/// off or brought forward by a minute or more, and when it is gone. Everything else is silence, however often the
/// document is read.
///
/// A notice is known again by its id. Azure has been seen to change the id between states, so a notice of the same
/// kind for the same machines counts as the same one too, unless it would go back from started to scheduled: that is
/// the next maintenance.
#[derive(Debug, Clone, Default)]
pub struct Notices {
    known: Vec<(Cloud, Notice)>,
    /// This machine's name, as notices have it.
    machine: Option<String>,
}

impl Notices {
    /// Nothing has been announced.
    pub fn new() -> Self {
        Self::default()
    }

    /// This machine's name in notices. A notice that names only other machines is not its own.
    pub fn machine_is(&mut self, name: Option<String>) {
        self.machine = name;
    }

    /// Takes a cloud's document as it stands now; gives the `maintenance` events, in the document's order and what is
    /// gone first.
    pub fn update(&mut self, document: Document) -> Vec<EventKind> {
        let cloud = document.cloud;
        let (mut before, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.known).into_iter().partition(|(c, _)| *c == cloud);
        self.known = others;
        // All ids first: a notice without a partner by id must not take one that another has by id.
        let mut pairs: Vec<(Option<Notice>, Notice)> = document
            .notices
            .into_iter()
            .map(|now| (take(&mut before, |old| same_id(old, &now)), now))
            .collect();
        for (was, now) in &mut pairs {
            if was.is_none() {
                *was = take(&mut before, |old| same_work(old, now));
            }
        }
        let mut events: Vec<EventKind> =
            before.iter().map(|(_, gone)| self.told(cloud, gone, State::Gone)).collect();
        for (was, now) in pairs {
            let tell = was.as_ref().is_none_or(|was| was.state != now.state || moved(was, &now));
            if tell {
                events.push(self.told(cloud, &now, now.state));
            }
            // The start that was told last is the one to compare with, or a start could creep away unseen.
            let told_start = if tell { None } else { was.and_then(|was| was.not_before) };
            let not_before = told_start.or(now.not_before);
            self.known.push((cloud, Notice { not_before, ..now }));
        }
        events
    }

    /// The host of a notice: `other` if it names machines, and this machine is known and not among them.
    fn host(&self, notice: &Notice) -> &'static str {
        let is_named = |machine: &String| {
            notice.resources.is_empty()
                || notice.resources.iter().any(|name| name.eq_ignore_ascii_case(machine))
        };
        if self.machine.as_ref().is_none_or(is_named) { "local" } else { "other" }
    }

    fn told(&self, cloud: Cloud, notice: &Notice, state: State) -> EventKind {
        EventKind::Maintenance {
            host: self.host(notice).to_owned(),
            cloud: cloud.name().to_owned(),
            id: notice.id.clone(),
            what: notice.what.clone(),
            state: state.name().to_owned(),
            not_before: notice.not_before,
            duration_ns: notice.duration_ns,
            notice: notice.raw.clone(),
        }
    }
}

fn take(from: &mut Vec<(Cloud, Notice)>, wanted: impl Fn(&Notice) -> bool) -> Option<Notice> {
    let found = from.iter().position(|(_, notice)| wanted(notice))?;
    Some(from.remove(found).1)
}

fn same_id(old: &Notice, now: &Notice) -> bool {
    old.id.is_some() && old.id == now.id
}

fn same_work(old: &Notice, now: &Notice) -> bool {
    let goes_back = old.state == State::Started && now.state == State::Scheduled;
    old.what == now.what && old.resources == now.resources && !goes_back
}

fn moved(was: &Notice, now: &Notice) -> bool {
    match (was.not_before, now.not_before) {
        (Some(was), Some(now)) => (now.as_nanosecond() - was.as_nanosecond()).abs() >= MOVED_NS,
        _ => false,
    }
}
