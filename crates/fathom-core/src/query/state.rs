//! What a server says of itself, and what of that is believed.

/// What a server's backend does, as it says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ServerState {
    /// It works on the query, or waits for something that is not its client.
    Working,
    /// It is blocked on sending to its client.
    Sending,
    /// It has sent everything, and waits for a request.
    Done,
    /// What it did before the request was there, or before it ran again to see it.
    Before,
    /// What it did before the request was sent, though it was there: the nearest end of TCP, which a proxy's may be, had acknowledged it.
    Untaken,
}

/// Since when a server has done what it says, on this end's clock: somewhere between the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Since {
    /// At the earliest.
    pub earliest_ns: u64,
    /// At the latest.
    pub latest_ns: u64,
}

impl Since {
    /// Of a look that was asked for and answered at these moments, and by which the server had done so for so long when it took the
    /// question up (less than nothing: it began afterwards). Nobody knows where between the two moments that was. The two clocks may
    /// run apart by a thousandth: Linux slews each by 500 ppm at the most (adjtimex(2)). `None`: the server's clock was set meanwhile.
    pub fn of_look(asked_ns: u64, at_ns: u64, lasted_ns: i64) -> Option<Self> {
        let apart_ns = (at_ns.saturating_sub(asked_ns) + lasted_ns.unsigned_abs()) / 1_000 + 1_000;
        let began = |from_ns: u64, apart_ns: i128| {
            let ns = i128::from(from_ns) - i128::from(lasted_ns) + apart_ns;
            u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
        };
        let earliest_ns = began(asked_ns, -i128::from(apart_ns));
        // What it says had begun when it answered.
        (earliest_ns <= at_ns)
            .then(|| Self { earliest_ns, latest_ns: began(at_ns, apart_ns.into()).min(at_ns) })
    }

    /// The same of a server that tells it no finer than by so much, and answered then.
    #[must_use]
    pub fn within(self, ns: u64, at_ns: u64) -> Self {
        let latest_ns = self.latest_ns.saturating_add(ns).min(at_ns);
        Self { earliest_ns: self.earliest_ns.saturating_sub(ns), latest_ns }
    }
}

impl ServerState {
    /// The law of every protocol: a server that does not run says what it did last. That it has sent everything is believed only of one
    /// that surely came to it after the request was sent, so that it ran meanwhile; of others the path is never sure, whatever they
    /// say, and without a time (`None`) none is. Anything else that it says is the server's time, also where it does not run, and is
    /// not believed only where it surely is older than the request.
    ///
    /// `is_there`: when the server was asked for this, the other end's kernel was known to have the request.
    #[must_use]
    pub fn believed(self, since: Option<Since>, requested_ns: u64, is_there: bool) -> Self {
        match since {
            None if self == Self::Done => Self::Before,
            Some(since) if since.latest_ns < requested_ns && is_there => Self::Untaken,
            Some(since) if since.latest_ns < requested_ns => Self::Before,
            Some(since) if self == Self::Done && since.earliest_ns < requested_ns => Self::Before,
            _ => self,
        }
    }
}
