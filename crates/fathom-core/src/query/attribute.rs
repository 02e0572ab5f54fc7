//! Whose time it is, by what this side did and what the looks before and after say; and what may have been another's all the same.

use super::rate::Carried;
use super::split::Party::{Client, Path, Server};
use super::{ServerState, Split};

/// What this side did for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    /// It waited for the first bytes of an answer, longer than a round trip.
    First,
    /// The same, and nobody knows a round trip.
    FirstWithoutRtt,
    /// It waited for the first bytes, and did not run, so that nobody looked.
    FirstUnlooked,
    /// It waited for later bytes.
    Waiting,
    /// It was busy, and waited afterwards.
    Hidden(Inflow),
    /// It was busy, did not wait afterwards, and bytes of the answer were still to come.
    Tied(Inflow),
    /// It did not run, while bytes lay here or could have come.
    Stood,
    /// The same, and nothing could come any more.
    StoodShut,
}

/// What the kernel took in for this side while it was busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Inflow {
    /// There was room for more.
    Free,
    /// Nobody knows.
    Unknown,
    /// In the end there was no room; when that began is not known.
    Held,
    /// There was no room: nothing came, and nothing could.
    Shut,
}

use Inflow::{Free, Held, Shut, Unknown};

pub(super) const DOINGS: [Doing; 14] = [
    Doing::First,
    Doing::FirstWithoutRtt,
    Doing::FirstUnlooked,
    Doing::Waiting,
    Doing::Hidden(Free),
    Doing::Hidden(Unknown),
    Doing::Hidden(Held),
    Doing::Hidden(Shut),
    Doing::Tied(Free),
    Doing::Tied(Unknown),
    Doing::Tied(Held),
    Doing::Tied(Shut),
    Doing::Stood,
    Doing::StoodShut,
];

/// Time by what this side did.
pub(super) type Sums = [u64; DOINGS.len()];

/// Where [`DOINGS`] has it.
pub(super) fn index(doing: Doing) -> usize {
    match doing {
        Doing::First => 0,
        Doing::FirstWithoutRtt => 1,
        Doing::FirstUnlooked => 2,
        Doing::Waiting => 3,
        Doing::Hidden(inflow) => 4 + inflow as usize,
        Doing::Tied(inflow) => 8 + inflow as usize,
        Doing::Stood => 12,
        Doing::StoodShut => 13,
    }
}

/// Time that was spent so while the server was seen so.
pub(super) type Spent = (Doing, Seen, u64);

/// What of these sums is any.
pub(super) fn spent(seen: &[Sums; SEEN.len()]) -> Vec<Spent> {
    let each = SEEN.into_iter().zip(seen);
    let each =
        each.flat_map(|(seen, sums)| DOINGS.into_iter().zip(sums).map(move |(doing, &ns)| (doing, seen, ns)));
    each.filter(|(.., ns)| *ns > 0).collect()
}

/// Takes so much of what is not known to be the server's out of first waits, as far as there is: of all turns, of which the others have small
/// requests.
pub(super) fn take_carried(seen: &mut [Sums; SEEN.len()], ns: u64) -> u64 {
    let mut left_ns = ns;
    for seen_so in [Seen::MaybeOnItsWay, Seen::Changed, Seen::Nothing, Seen::Begun, Seen::Late] {
        for doing in [Doing::First, Doing::FirstUnlooked] {
            let first_ns = &mut seen[seen_so as usize][index(doing)];
            let taken_ns = left_ns.min(*first_ns);
            (*first_ns, left_ns) = (*first_ns - taken_ns, left_ns - taken_ns);
        }
    }
    ns - left_ns
}

/// What the looks before and after say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// Nothing, or that the server had the request and no more.
    Nothing,
    /// From the request to the first look, which saw it work.
    Begun,
    /// The first looks saw that it had not taken the request up, and then one that it had, or that it was there. The request may have
    /// been on its way for as long.
    MaybeOnItsWay,
    Working,
    /// From the last look, which saw it work, to the end of the turn.
    Ended,
    Sending,
    Done,
    /// Between a look that saw it work, and one that saw it blocked or done.
    Changed,
    /// The turn began or ended there, and a look saw it work; but one was late, so that nobody knows for when.
    Late,
    /// The same between two looks that both saw it work: it had the request before, and worked on afterwards.
    LateWorking,
}

pub(super) const SEEN: [Seen; 10] = [
    Seen::Nothing,
    Seen::Begun,
    Seen::MaybeOnItsWay,
    Seen::Working,
    Seen::Ended,
    Seen::Sending,
    Seen::Done,
    Seen::Changed,
    Seen::Late,
    Seen::LateWorking,
];

impl Seen {
    /// Between two looks of one turn; `None`: the turn begins, or ends.
    pub(super) fn between(before: Option<ServerState>, after: Option<ServerState>) -> Self {
        use ServerState::{Before, Done, Sending, Untaken, Working};
        match (before, after) {
            // Where the request is there it is the server's: whoever does not look knows no more.
            (None | Some(Untaken), None) | (Some(Untaken), Some(Untaken)) => Self::Nothing,
            // A turn begins with work, once the request is there.
            (None | Some(Untaken), Some(Working)) => Self::Begun,
            (None | Some(Before), Some(Before | Untaken)) | (Some(Before), Some(Working)) => {
                Self::MaybeOnItsWay
            }
            (Some(Working), Some(Working)) => Self::Working,
            (Some(Working), None) => Self::Ended,
            // And ends with everything sent.
            (Some(Done), Some(Done) | None) => Self::Done,
            (Some(Sending | Done), Some(Sending | Done) | None) => Self::Sending,
            _ => Self::Changed,
        }
    }

    /// The same, where a look was late.
    pub(super) fn if_late(self, is_late: bool) -> Self {
        match self {
            _ if !is_late => self,
            Self::Working => Self::LateWorking,
            Self::Begun | Self::Ended => Self::Late,
            _ => Self::Changed,
        }
    }

    /// The same, of a time in which nobody could look.
    pub(super) fn unlooked(self) -> Self {
        if self.is_sent() { self } else { Self::Changed }
    }

    fn is_working(self) -> bool {
        matches!(self, Self::Begun | Self::Working)
    }

    fn is_sent(self) -> bool {
        matches!(self, Self::Sending | Self::Done)
    }
}

/// What the path held up.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeldUp {
    /// Something was held up, or nobody knows whether.
    pub(super) was: bool,
    /// For so long at most, as far as was seen, but for what it was given.
    pub(super) most_ns: u64,
}

impl HeldUp {
    /// The server's time, or the path's that held it up: of what that may be half each, and all else the server's. What was seen of
    /// the path beside the query it may have done to the query, too, or not.
    fn give(&mut self, split: &mut Split, ns: u64) {
        let may_be_ns = ns.min(self.most_ns);
        let path_ns = may_be_ns / 2;
        self.most_ns -= may_be_ns;
        split.give_one_of(&[Path, Server], path_ns);
        split.give_one_of(&[Server, Path], ns - path_ns);
    }
}

/// Whose time it is that this side spent so while the server was seen so. Where the path held something up the server may not have
/// had the request before it was seen to work, and may have answered after it was.
pub(super) fn attribute(split: &mut Split, (doing, seen, ns): Spent, held_up: &mut HeldUp) {
    let was_held_up = held_up.was;
    match doing {
        Doing::First | Doing::FirstWithoutRtt | Doing::FirstUnlooked => match seen {
            // Of a first wait too, what looks say that the server was not doing it did not do.
            Seen::Done if doing == Doing::First => split.give(Path, ns),
            // One that gets no processor while it sends goes on saying that it sends, and nothing of the answer has come.
            Seen::Sending if doing == Doing::First => split.give_one_of(&[Path, Server], ns),
            Seen::Working if doing != Doing::FirstWithoutRtt => split.give(Server, ns),
            Seen::Nothing | Seen::Begun | Seen::Ended if doing != Doing::FirstWithoutRtt && !was_held_up => {
                split.give(Server, ns);
            }
            // A busy host answers a look late, too: without a sign of the path it is most likely the server's all the same, and where it
            // worked before and after, with one.
            Seen::LateWorking if doing == Doing::First => split.give_one_of(&[Server, Path], ns),
            Seen::MaybeOnItsWay | Seen::Late if doing == Doing::First && !was_held_up => {
                split.give_one_of(&[Server, Path], ns);
            }
            Seen::Nothing
            | Seen::Begun
            | Seen::MaybeOnItsWay
            | Seen::Ended
            | Seen::Late
            | Seen::LateWorking
                if doing != Doing::FirstWithoutRtt =>
            {
                held_up.give(split, ns);
            }
            _ => split.give_half(Server, Path, ns),
        },
        // Of that what is doubted is reckoned for the whole query.
        Doing::StoodShut => split.give(Client, ns),
        Doing::Waiting | Doing::Hidden(Free) if seen.is_sent() => split.give(Path, ns),
        Doing::Waiting | Doing::Hidden(Free) if seen.is_working() => split.give(Server, ns),
        Doing::Waiting | Doing::Hidden(Free)
            if matches!(seen, Seen::Ended | Seen::Late | Seen::LateWorking) =>
        {
            if was_held_up {
                held_up.give(split, ns);
            } else {
                split.give_one_of(&[Server, Path], ns);
            }
        }
        Doing::Waiting | Doing::Hidden(Free) => split.give_half(Server, Path, ns),
        // The client had bytes that it had not read, so that the server could not go on.
        Doing::Hidden(Shut) | Doing::Tied(Shut) if seen.is_sent() => split.give(Client, ns),
        Doing::Hidden(Held) | Doing::Tied(Held) if seen.is_sent() => {
            split.give(Client, ns);
            split.doubt(Client, &[Path], ns);
        }
        Doing::Hidden(Unknown) | Doing::Tied(Free | Unknown) if seen.is_sent() => {
            split.give_one_of(&[Client, Path], ns);
        }
        // It had, and the server could: whoever is ahead, the other is not far behind.
        Doing::Hidden(Unknown) if seen.is_working() => split.give(Server, ns),
        Doing::Hidden(Held | Shut) if seen.is_working() => {
            split.give(Server, ns);
            split.doubt(Server, &[Client, Path], ns);
        }
        Doing::Stood | Doing::Tied(Held | Shut) => {
            split.give(Client, ns);
            split.doubt(Client, &[Server, Path], ns);
        }
        Doing::Hidden(_) | Doing::Tied(_) => {
            split.give_one_of(&[Client, Server, Path], ns / 3);
            split.give_one_of(&[Server, Path, Client], ns / 3);
            split.give_one_of(&[Path, Client, Server], ns - ns / 3 * 2);
        }
    }
}

/// Waits that hardly were any, and what this side had done before each: it was as slow as whom it waited for.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tie {
    pub(super) waited_ns: u64,
    pub(super) hidden_ns: u64,
}

/// What of a party's sure time may have been another's. `looks`: how many there were. `carried`: how much of the later waits
/// the path took at most; all of them, and of the first ones, where its time is the greatest number: something was lost.
/// `tie`: so long this side was as slow as whom it waited for. `silent_ns`: so long nothing came, and round trips did.
pub(super) fn doubts(
    split: &mut Split,
    spent: &[Spent],
    looks: u32,
    carried: Carried,
    tie: Tie,
    silent_ns: u64,
) {
    let tie_ns = tie.waited_ns + tie.hidden_ns;
    let sum = |is: fn(Doing, Seen) -> bool| -> u64 {
        spent.iter().filter(|&&(doing, seen, _)| is(doing, seen)).map(|(.., ns)| ns).sum()
    };
    let (waits, hidden) =
        (sum(|doing, _| doing == Doing::Waiting), sum(|doing, _| matches!(doing, Doing::Hidden(_))));
    // What was hidden while there was no room was doubted when it was given: nothing is doubted twice.
    let working = sum(|doing, seen| {
        matches!(doing, Doing::Waiting | Doing::Hidden(Free | Unknown)) && seen.is_working()
    });
    // Of what was hidden, so much was given so that none of it is the client's.
    let others = sum(|doing, seen| match doing {
        Doing::Hidden(Free) => true,
        Doing::Hidden(Unknown) => seen.is_working(),
        _ => false,
    });
    let sent = sum(|doing, seen| matches!(doing, Doing::Waiting | Doing::Hidden(Free)) && seen.is_sent());
    let clients = sum(|doing, seen| matches!(doing, Doing::Hidden(Shut)) && seen == Seen::Sending);
    // Of n looks that all saw the same, what they did not see may still have been up to 3 in n ("rule of three", the 95 %
    // bound: Hanley and Lippman-Hand, JAMA 249, 1983).
    let unseen = (3.0 / f64::from(looks.max(1))).min(1.0);
    let was_lost = carried.ns == u64::MAX;
    // The path may have been as slow as the server is, for as long as it may have carried what came.
    let carried = (carried.share_of_waits + carried.ns as f64 / (waits + hidden).max(1) as f64).min(1.0);
    let of = |ns: u64, share: f64| (ns as f64 * share) as u64;
    let by_path = of(working, unseen.max(carried));
    split.doubt(Server, &[Path], by_path);
    // A segment that was lost may have been all that was waited for.
    if was_lost {
        split.doubt(Server, &[Path], sum(|doing, _| matches!(doing, Doing::First | Doing::FirstUnlooked)));
    }
    // One that stands still while it is blocked on sending goes on saying so. What says that all is sent is not said by such a one.
    let sending = sum(|doing, seen| doing == Doing::Waiting && seen == Seen::Sending);
    split.quiet_ns = silent_ns;
    let silent_ns = silent_ns.min(sending);
    split.silent(silent_ns);
    let by_server = of(sent, unseen).max(silent_ns);
    split.doubt(Path, &[Server], by_server);
    split.doubt(Client, &[Server, Path], of(clients, unseen));
    for (party, other, ns, doubted_ns) in [(Server, Path, working, by_path), (Path, Server, sent, by_server)]
    {
        split.doubt(party, &[other], tie_ns.min(ns - doubted_ns));
    }
    split.may_be(Client, tie.waited_ns + tie.hidden_ns.min(others));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_own_place() {
        for (at, doing) in DOINGS.into_iter().enumerate() {
            assert_eq!(index(doing), at, "{doing:?}");
        }
    }
}
