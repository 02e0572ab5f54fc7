//! What the recording of an application under a policy says of its requests: also where it breaks off.

use crate::events::Entry;
use crate::recorder::progress;
use crate::{Error, Recording};
use fathom_core::event::CLIENT_MODE;
use fathom_core::policy::{Amounts, NOTED_EVERY_NS, Tally};

impl Recording {
    /// What the requests came to, of which `tally` took every row and event; `None`: it is a recording of something else.
    pub fn client(&self, tally: Tally) -> Option<Amounts> {
        let mut amounts = self.noted(tally)?;
        if self.is_running() {
            amounts.counts.in_flight = std::mem::take(&mut amounts.not_known);
        } else if self.manifest().ended_at.is_none() {
            amounts.uncounted_ns = NOTED_EVERY_NS;
        }
        Some(amounts)
    }

    /// The same of one that somebody recovers, who holds its lock, read here; of what cannot be read nothing is known.
    pub(crate) fn requests(&self) -> Result<Option<Amounts>, Error> {
        let mut tally = Tally::new(&self.manifest().reflector.address);
        for entry in self.events()?.flatten() {
            if let Entry::Known(event) = entry {
                tally.event(&event);
            }
        }
        self.samples().flatten().for_each(|sample| tally.sample(&sample));
        Ok(self.noted(tally))
    }

    /// With what the client noted last.
    fn noted(&self, mut tally: Tally) -> Option<Amounts> {
        if self.manifest().probe["mode"] != CLIENT_MODE {
            return None;
        }
        if let Some(progress) = progress::read(self.dir()) {
            tally.was_due(progress.due);
        }
        Some(tally.amounts())
    }
}
