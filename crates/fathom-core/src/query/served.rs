//! What a server says of a query once it is over: since when it has been done with it, and for how long its client's side held it up. It had no
//! more to do with the query than lies between the request and that moment, whatever was seen of it meanwhile.

use super::split::Party::{Client, Path, Server};
use super::split::Split;
use super::{SLACK_NS, Since};

/// What a look says that was asked for once the answer was whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Served {
    /// Since when the server has been done.
    pub since: Since,
    /// No round trip of the path is shorter, ns: the request took as long on its way as the look's question did, or the look's answer back.
    pub least_rtt_ns: u64,
    /// A usual one, ns.
    pub rtt_ns: u64,
    /// None of usual ones takes more, ns.
    pub most_rtt_ns: u64,
    /// The look itself took so long, ns.
    pub look_ns: u64,
    /// It was blocked on sending for so long, as it counts, ns; `None`: nobody knows.
    pub blocked_ns: Option<u64>,
}

impl Served {
    /// So long it had to do with a query that began then, at the most.
    ///
    /// The request was taken up no sooner than `there` after it was sent. The look's answer was written no later than `back` before it
    /// came. Both together are a round trip.
    fn most_ns(&self, began_ns: u64) -> u64 {
        self.since.latest_ns.saturating_sub(began_ns).saturating_sub(self.least_rtt_ns)
    }

    /// So much longer than a usual round trip the look took.
    fn slower_ns(&self) -> u64 {
        self.look_ns.saturating_sub(self.rtt_ns)
    }

    /// By so much that most may be more than it was: the request may have been longer on its way than it had to be, and nobody knows when the
    /// look was taken up.
    fn unsure_ns(&self) -> u64 {
        let look_ns = (self.since.latest_ns - self.since.earliest_ns).saturating_sub(self.least_rtt_ns);
        look_ns.saturating_add(self.most_rtt_ns.saturating_sub(self.least_rtt_ns))
    }
}

/// Of the wall time, what may be neglected.
const LITTLE: f64 = 0.05;

impl Split {
    /// Heeds what the server says of the query, which began then.
    ///
    /// That it was blocked is what is most likely, and no bound: a server that gets no processor when there is room again, or stands still,
    /// counts that as a wait for its client, too.
    pub fn served(&mut self, began_ns: u64, served: &Served) {
        let most_ns = served.most_ns(began_ns);
        self.server_at_most(most_ns);
        let server = self.part(Server);
        // Where nothing was on its way for longer than usual it worked all the time until then, but for what it was blocked for.
        let known_ns =
            served.blocked_ns.filter(|_| self.quiet_ns == 0 && self.was_well && self.unsteady_ns == 0);
        let open_ns = match known_ns {
            Some(blocked_ns) => {
                // The request took as long on its way, and the look's answer back, as a usual round trip is more likely than as the least.
                let usual_ns = served.rtt_ns.saturating_sub(served.least_rtt_ns);
                let likely_ns = most_ns.saturating_sub(usual_ns).saturating_sub(blocked_ns);
                self.shift(Server, Path, server.ns.saturating_sub(likely_ns));
                // What came after it was done is what others were behind with: where that is little nobody else was slower.
                let behind_ns =
                    (self.wall_ns - most_ns.min(self.wall_ns)).saturating_sub(served.least_rtt_ns);
                if blocked_ns.max(behind_ns) <= (self.wall_ns as f64 * LITTLE) as u64 {
                    self.shift(Path, Server, likely_ns.saturating_sub(server.ns));
                    served.unsure_ns()
                } else {
                    likely_ns.clamp(server.low_ns, server.high_ns) - server.low_ns
                }
            }
            None => server.high_ns - server.low_ns,
        };
        // The path has what the two others have not: no more is open than theirs.
        let client = self.part(Client);
        let tied_ns = self.tied_ns.min(client.high_ns - client.low_ns);
        self.open_ns = self.open_ns.min(tied_ns.saturating_add(open_ns));
        self.tied_ns = self.tied_ns.min(self.open_ns);
        self.unsteady_ns = self.unsteady_ns.min(self.open_ns);
        self.silent_ns = self.silent_ns.min(self.open_ns);
        // The path may have become slower since round trips were measured, or the server to look: nobody knows which.
        let slower_ns = served.slower_ns().min(server.high_ns - server.low_ns);
        if slower_ns > SLACK_NS {
            self.open_ns = self.open_ns.max(slower_ns);
        }
    }

    /// The server has no more than that; what it had beyond is rather the path's, because this side waited for it.
    fn server_at_most(&mut self, ns: u64) {
        let server = &mut self.parts[Server as usize];
        if server.high_ns <= ns {
            return;
        }
        let (sure_ns, moved_ns) = (server.low_ns.saturating_sub(ns), server.ns.saturating_sub(ns));
        server.high_ns = ns;
        server.low_ns -= sure_ns;
        server.ns -= moved_ns;
        let server = *server;
        let path = &mut self.parts[Path as usize];
        path.ns += moved_ns;
        path.high_ns = path.high_ns.saturating_add(sure_ns).max(path.ns);
        // What neither of the two others can have had. How much the path can have had at the most was reckoned beside a server that may have
        // had more: it makes nothing surely the client's.
        let client = self.parts[Client as usize];
        let left_ns = self.wall_ns.saturating_sub(server.high_ns).saturating_sub(client.high_ns);
        let path = &mut self.parts[Path as usize];
        path.low_ns = path.low_ns.max(left_ns);
        let others_ns = self.wall_ns.saturating_sub(server.high_ns).saturating_sub(client.low_ns);
        path.high_ns = path.high_ns.max(others_ns);
        self.agree();
    }
}
