//! What a search found, and what it means.

use super::age::{Life, died_and_became};
use super::band::Band;
use super::cohort::{Bracket, Cohort};
use super::doubt::{Doubt, FEW, doubt};
use super::share::wilson;
use super::why::contradicted;
use crate::event::{Death, Limit, OneWay, What};
use crate::peer_report::{Failure, PeerReport, Standing};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What came of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// There is a limit, within the bracket.
    Found,
    /// Connections survived all that was tried.
    NotFound,
    /// The user ended it: what is known so far.
    Stopped,
    /// Something else ended connections, or the path was down: what is known so far.
    Unclear,
    /// There was nothing to measure: no connection, or no echo.
    Failed,
}

/// By whose hand connections died, as far as the reflector tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// The reflector, because of an idle limit of its own.
    Reflector,
    /// Something between: the reflector has them open still, or was itself told by a FIN or a RST.
    Between,
    /// Nobody tells: the peer is no reflector of ours, or does not know the connection.
    Unknown,
}

/// What happened besides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meanwhile {
    /// When, in ns from the beginning.
    pub after_ns: u64,
    /// What.
    pub what: What,
}

/// What became of the connections that were idle for one length.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The length that was planned, in ns.
    pub length_ns: u64,
    /// Connections that survived it.
    pub survived: u32,
    /// They had been idle for so long at the least, in ns. Absent: none survived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least_ns: Option<u64>,
    /// Connections that died.
    pub died: u32,
    /// They had been idle for so long at the most, in ns. Absent: none died.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_ns: Option<u64>,
    /// Connections of which nothing can be said.
    pub void: u32,
}

/// One end of the bracket.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// How long the connections had been idle, or how old they were (`age_ns` then), in ns: at the least where they survived, at
    /// the most where they died.
    #[serde(alias = "age_ns")]
    pub idle_ns: u64,
    /// So many did.
    pub hits: u32,
    /// Of so many.
    pub of: u32,
    /// Their share of all such connections: an interval of 95 % (Wilson).
    pub share_95: (f64, f64),
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Which limit was searched for.
    pub limit: Limit,
    /// What came of it.
    pub verdict: Verdict,
    /// Why it is unclear, or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The longest idleness that was survived. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub survived: Option<End>,
    /// The shortest of which connections died. Absent: none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub died: Option<End>,
    /// Connections that were idle for as long later died too.
    pub confirmed: bool,
    /// How those died that `died` counts.
    pub how: BTreeMap<Death, u32>,
    /// By whose hand.
    pub by: By,
    /// The longest idleness that was asked for, in ns.
    pub up_to_ns: u64,
    /// How often the kernel sent keepalives meanwhile, in ns. Absent: it sent none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keepalive_ns: Option<u64>,
    /// Traffic in one direction that idle connections had. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_way: Option<OneWay>,
    /// How long it took, in ns.
    pub took_ns: u64,
    /// Connections that were opened. Absent: it is not known, because the recording breaks off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opened: Option<u64>,
    /// Deaths of single connections at lengths that most survived; where it is unclear, all.
    pub strays: u32,
    /// The shortest idleness, or the lowest age, of which a connection died, in ns, where they contradict both a limit and that
    /// there is none; beside both ends those are of a band. Absent: they do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dies_from_ns: Option<u64>,
    /// What happened besides.
    pub meanwhile: Vec<Meanwhile>,
    /// What became of the connections of each length, from the shortest; of a search for an age limit there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lengths: Vec<Row>,
    /// Of a search for an age limit: each connection that began, but for those that were not answered at first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lives: Vec<Life>,
}

impl Row {
    /// Takes in what another says of the same length. True.
    fn takes(&mut self, other: &Self) -> bool {
        self.survived += other.survived;
        self.died += other.died;
        self.void += other.void;
        self.least_ns = self.least_ns.into_iter().chain(other.least_ns).min();
        self.most_ns = self.most_ns.into_iter().chain(other.most_ns).max();
        true
    }
}

/// The claimed ends: those of a band if no single limit explains the deaths.
pub(super) fn claimed(cohorts: &[Cohort]) -> Bracket {
    let bracket = Bracket::of(cohorts);
    let band = doubt(cohorts, bracket).and_then(|_| Band::of(cohorts));
    band.map_or(bracket, |band| band.ends)
}

fn end(idle_ns: u64, hits: u32, of: u32) -> End {
    End { idle_ns, hits, of, share_95: wilson(hits, of) }
}

impl Outcome {
    /// What the cohorts tell; what they do not is left as of a search that has just begun.
    pub(super) fn of(cohorts: &[Cohort], verdict: Verdict) -> Self {
        let doubt = doubt(cohorts, Bracket::of(cohorts));
        let band = doubt.and_then(|_| Band::of(cohorts));
        let Bracket { survived, died } = claimed(cohorts);
        let mut how = BTreeMap::new();
        // A length may have been tried several times: all that were idle for it count.
        let alike =
            |at: usize| cohorts.iter().filter(move |cohort| cohort.length_ns == cohorts[at].length_ns);
        let judged = |at: usize| alike(at).map(Cohort::judged).sum();
        for death in died.iter().flat_map(|&(at, _)| alike(at)).flat_map(|cohort| &cohort.died) {
            *how.entry(death.how).or_default() += 1;
        }
        let survived_ns = survived.map_or(0, |(_, ns)| ns);
        let all = || cohorts.iter().flat_map(|cohort| &cohort.died);
        let mut lengths: Vec<Row> = cohorts
            .iter()
            .filter(|cohort| cohort.judged() + cohort.void > 0)
            .map(|cohort| Row {
                length_ns: cohort.length_ns,
                survived: cohort.survived,
                least_ns: (cohort.survived > 0).then_some(cohort.least_ns),
                died: cohort.died.len() as u32,
                most_ns: cohort.died.iter().map(|died| died.most_ns).max(),
                void: cohort.void,
            })
            .collect();
        // A length may have been tried several times.
        lengths.sort_by_key(|row| row.length_ns);
        lengths.dedup_by(|later, row| row.length_ns == later.length_ns && row.takes(later));
        let found = Self {
            limit: Limit::Idle,
            verdict,
            why: None,
            survived: survived.map(|(at, _)| {
                let least = alike(at).filter(|cohort| cohort.survived > 0).map(|cohort| cohort.least_ns);
                let survived = alike(at).map(|cohort| cohort.survived).sum();
                end(least.min().unwrap_or(0), survived, judged(at))
            }),
            died: died.map(|(at, ns)| {
                let deaths = || alike(at).flat_map(|cohort| &cohort.died);
                let most_ns = deaths().map(|died| died.most_ns).max().unwrap_or(ns);
                // A connection at a band's upper end that was seen to end may have died of a shorter idle time than
                // others survived.
                let most_ns = if band.is_some() { most_ns.max(cohorts[at].length_ns) } else { most_ns };
                end(most_ns, deaths().count() as u32, judged(at))
            }),
            confirmed: band.is_some(),
            how,
            by: By::Unknown,
            up_to_ns: 0,
            keepalive_ns: None,
            one_way: None,
            took_ns: 0,
            opened: None,
            strays: all().filter(|died| died.most_ns <= survived_ns).count() as u32,
            meanwhile: Vec::new(),
            dies_from_ns: band.map(|band| band.first_ns),
            lengths,
            lives: Vec::new(),
        };
        match doubt.filter(|_| band.is_none()) {
            Some(doubt) if verdict != Verdict::Failed => found.doubted(&doubt),
            _ => found,
        }
    }

    /// Claims neither end: what is survived lies below the first death.
    fn doubted(self, doubt: &Doubt) -> Self {
        let all_lived = |row: &&Row| row.died == 0 && row.least_ns.is_some_and(|ns| ns < doubt.from_ns);
        let longest = self.lengths.iter().filter(all_lived).max_by_key(|row| row.least_ns);
        let survived = longest.and_then(|row| Some(end(row.least_ns?, row.survived, row.survived)));
        Self {
            verdict: Verdict::Unclear,
            why: Some(contradicted(doubt)),
            survived,
            died: None,
            how: BTreeMap::new(),
            strays: doubt.died,
            dies_from_ns: Some(doubt.from_ns),
            ..self
        }
    }

    /// True if the limit is a band: from the first death on some die and others live, up to its upper end.
    pub fn is_band(&self) -> bool {
        self.dies_from_ns.is_some() && self.died.is_some()
    }

    /// Whether connections died beside the limit, or though there is none, that are too many to be left aside.
    pub fn has_many_strays(&self) -> bool {
        let judged: u32 = self.lengths.iter().map(|row| row.survived + row.died).sum();
        match self.limit {
            Limit::Idle => self.strays * FEW > judged,
            // As `age/found.rs` has it.
            Limit::Age => {
                let (died, became) = died_and_became(&self.lives, self.up_to_ns);
                self.verdict == Verdict::NotFound && died * 3 > became
            }
        }
    }
}

impl By {
    /// What the reflector says of connections that died.
    ///
    /// `unanswered`: requests that were acknowledged, by their connections. Where the reflector never got one, something between
    /// took it. Where it did, and its kernel sends the answer again and again, something between takes that; else nobody
    /// between ended anything, as far as is known.
    pub(super) fn of(reports: &[(u32, PeerReport)], unanswered: &BTreeMap<u32, u64>) -> Self {
        let came = |id: &u32, report: &PeerReport| {
            unanswered.get(id).is_some_and(|request| report.last_seq >= Some(*request))
                && !report.has_answered_in_vain()
        };
        let one = |(id, report): &(u32, PeerReport)| match report.standing {
            Standing::ClosedIdle => Self::Reflector,
            Standing::Open | Standing::ClosedByProbe | Standing::Failed if came(id, report) => Self::Unknown,
            Standing::Open | Standing::ClosedByProbe => Self::Between,
            Standing::Failed => {
                // Where its own host destroyed the socket, it was not on the way.
                let aborted = report.responder.is_some_and(|who| who.failure == Some(Failure::Aborted));
                if aborted { Self::Unknown } else { Self::Between }
            }
            Standing::NotKnown => Self::Unknown,
        };
        let mut all = reports.iter().map(one);
        let Some(first) = all.next() else { return Self::Unknown };
        if all.all(|by| by == first) { first } else { Self::Unknown }
    }
}
