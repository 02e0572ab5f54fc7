//! How long a server is waited for.

use crate::Stop;
use fathom_os::clock::mono_ns;
use std::io;
use std::time::Duration;

/// A deadline, before which the user may lose patience: whoever waits polls for at most [`Limit::PIECE`], and then checks.
#[derive(Debug, Clone)]
pub(crate) struct Limit {
    until_ns: Option<u64>,
    within: Duration,
    stop: Stop,
    /// So many requests to end it are one too many.
    patience: u32,
}

impl Limit {
    pub(crate) const PIECE: Duration = Duration::from_millis(50);

    /// From now on.
    pub(crate) fn within(within: Duration, stop: &Stop) -> Self {
        let until_ns = mono_ns().saturating_add(u64::try_from(within.as_nanos()).unwrap_or(u64::MAX));
        Self { until_ns: Some(until_ns), within, stop: stop.clone(), patience: 2 }
    }

    /// As long as the user waits.
    pub(crate) fn none(stop: &Stop) -> Self {
        Self { until_ns: None, within: Duration::ZERO, stop: stop.clone(), patience: 2 }
    }

    /// The first request to end it is heard: nothing is lost by it.
    pub(crate) fn impatient(self) -> Self {
        Self { patience: 1, ..self }
    }

    /// An error: it is not to be waited for any longer.
    pub(crate) fn check(&self) -> io::Result<()> {
        if self.stop.times() >= self.patience || self.stop.is_over() {
            return Err(io::Error::other("it is not waited for any longer"));
        }
        if self.until_ns.is_some_and(|until_ns| mono_ns() > until_ns) {
            let why = format!("no whole answer within {:?}", self.within);
            return Err(io::Error::new(io::ErrorKind::TimedOut, why));
        }
        Ok(())
    }
}
