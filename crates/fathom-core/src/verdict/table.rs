//! The decision, as data: the first row whose facts hold, and none of whose excluding facts does, is taken.

use super::Verdict::{
    self, FlowForgotten, IdleExpired, Local, LocalPaused, PathDown, PeerDown, PeerPaused, Unknown,
};
use super::confidence::Confidence::{self, High, Low, Medium};
use super::facts::Facts;
#[allow(clippy::enum_glob_use, reason = "the table names nearly every fact")]
use super::says::Fact::{self, *};

/// One row.
#[derive(Debug)]
pub(super) struct Row {
    /// All of these hold. Their sentences are the reasons.
    pub(super) needs: &'static [Fact],
    /// None of these does.
    pub(super) unless: &'static [Fact],
    /// Those of these that hold are told as well; they decide nothing.
    pub(super) adds: &'static [Fact],
    pub(super) verdict: Verdict,
    pub(super) confidence: Confidence,
    /// Where the verdict is `unknown`: what it could be.
    pub(super) could_be: &'static [Verdict],
}

const fn row(
    needs: &'static [Fact],
    unless: &'static [Fact],
    verdict: Verdict,
    confidence: Confidence,
) -> Row {
    Row { needs, unless, adds: &[], verdict, confidence, could_be: &[] }
}

const fn open(needs: &'static [Fact], could_be: &'static [Verdict]) -> Row {
    Row { needs, unless: &[], adds: &[], verdict: Unknown, confidence: Confidence::None, could_be }
}

impl Row {
    const fn and(self, adds: &'static [Fact]) -> Self {
        Self { adds, ..self }
    }

    fn fits(&self, facts: &Facts) -> bool {
        self.needs.iter().all(|fact| fact.holds(facts)) && !self.unless.iter().any(|fact| fact.holds(facts))
    }
}

/// What is told beside a lost path or flow.
const BESIDE: &[Fact] =
    &[SentAgain, CameAgain, OthersLost, LocalPartlyPaused, RemotePartlyPaused, ReportedOnlyAfter, StillRuns];

pub(super) const TABLE: &[Row] = &[
    open(&[DestroyedHere], &[]),
    open(&[NotAnEcho], &[]),
    row(&[LocalPauseExplains], &[TriedInVain, Broken], LocalPaused, High),
    // Without an address or a way of its own nothing of this host came as far as the network. A FIN or a RST came from there.
    row(&[AddressGone], &[Broken], Local, High),
    row(&[NoRouteHere], &[Broken, PortUnreachable], Local, High),
    row(&[ClosedIdleThere], &[], IdleExpired, High),
    row(&[RemotePauseExplains], &[Broken, PortUnreachable], PeerPaused, High),
    row(&[RemotePauseWouldExplain], &[TriedInVain, Broken], PeerPaused, Medium),
    // The connection lives, or lived until the run ended.
    row(
        &[Survived, AnsweredByReplacement],
        &[OthersLost, FreshNoAnswer, NoGateway, NoCarrier, RefusedBetween],
        PeerDown,
        Medium,
    ),
    // Which came first, or did the most of it, nobody saw.
    open(&[Survived, AnsweredByReplacement], &[PeerDown, PathDown]).and(BESIDE),
    row(&[Survived, EchoLate, RanMeanwhile], &[], PathDown, High).and(BESIDE),
    // It may have stood still between its stamp and the sending: nothing later says that it ran.
    row(&[Survived, EchoLate], &[], PathDown, Medium).and(BESIDE),
    row(&[Survived, RequestLate], &[AcknowledgedAlone, Relayed, RequestWaited, ReadWhenever], PathDown, High)
        .and(BESIDE),
    open(&[Survived, RequestLate, ReadWhenever], &[PathDown, PeerPaused]),
    row(&[Survived, RequestLate, TellsPauses], &[RequestWaited, RemotePartlyPaused], PathDown, Medium)
        .and(&[AcknowledgedAlone, Relayed]),
    // It may recover, or be the end: only the flow is concerned then, or the way of all.
    open(&[GoesOn, FreshEchoed, NotAcknowledged], &[FlowForgotten, PathDown]).and(BESIDE),
    row(&[Survived, DatagramsCounted], &[RemotePartlyPaused], PathDown, High).and(BESIDE),
    row(&[Survived, ReportedReturn, NothingCameAgain], &[], PathDown, High).and(BESIDE),
    row(&[Survived, ReportedReturn], &[], PathDown, Medium).and(BESIDE),
    row(&[Survived, ReportedForward], &[Acknowledged, RemotePartlyPaused], PathDown, High).and(BESIDE),
    row(&[Survived, ReportedForward, Relayed], &[RemotePartlyPaused], PathDown, Medium).and(BESIDE),
    row(&[Survived, WaysLate], &[], PathDown, Medium).and(BESIDE),
    row(&[Survived, CameAgain, TellsPauses], &[RemotePartlyPaused, LocalPartlyPaused], PathDown, Medium)
        .and(BESIDE),
    row(&[Survived, OutOfOrder], &[], PathDown, Medium).and(BESIDE),
    open(&[Survived, NeverAnswered, Acknowledged], &[PeerPaused, PathDown]),
    // A kernel that holds an echo back behind one that was lost acknowledges alone too.
    row(
        &[Survived, AcknowledgedAlone, NothingElseOut],
        &[TellsPauses, Relayed, TriedInVain],
        PeerPaused,
        Medium,
    ),
    row(
        &[Survived, AcknowledgedAlone, NothingLateBefore],
        &[TellsPauses, Relayed, TriedInVain],
        PeerPaused,
        Low,
    ),
    row(&[Survived, TriedInVain, NotAcknowledged, TellsPauses], &[RemotePartlyPaused], PathDown, Medium)
        .and(BESIDE),
    row(&[Survived, SentAgain, NotAcknowledged, TellsPauses], &[RemotePartlyPaused], PathDown, Medium)
        .and(BESIDE),
    row(&[Survived, FreshNoRoute], &[], PathDown, High),
    row(&[Survived, NoCarrier], &[], PathDown, High),
    row(&[Survived, NoGateway], &[], PathDown, High),
    row(&[Survived, FreshForbidden], &[], PathDown, Medium),
    row(&[Survived, RefusedBetween], &[], PathDown, Medium),
    open(&[Survived, NotAcknowledged, RemotePartlyPaused], &[PathDown, PeerPaused]),
    open(&[GoesOn, NotAcknowledged], &[PathDown, PeerPaused]).and(BESIDE),
    row(&[Survived, FreshNoAnswer, NotAcknowledged], &[], PathDown, Low).and(BESIDE),
    row(&[Survived, SentAgain, NotAcknowledged], &[], PathDown, Low).and(BESIDE),
    open(&[Survived, TriedInVain], &[PathDown, PeerPaused]).and(BESIDE),
    open(&[Survived, Acknowledged], &[PeerPaused, PathDown]).and(BESIDE),
    open(&[Survived], &[]).and(BESIDE),
    // It was ended by somebody: a FIN, a RST, or a port that nothing listens on.
    row(&[BrokenOrUnreachablePort, ReplacedBefore], &[], PeerDown, High),
    row(&[BrokenOrUnreachablePort, ReplacedSoon], &[], PeerDown, Medium).and(&[FreshRefused]),
    open(&[BrokenOrUnreachablePort, AnotherAnswers], &[FlowForgotten, PeerDown]),
    open(&[Broken, DestroyedThere], &[]),
    row(&[Broken, NotItsDoing, IdledTooLong], &[], IdleExpired, Medium),
    row(&[Broken, NotItsDoing], &[], FlowForgotten, Medium),
    row(&[PortUnreachable, StillRuns], &[], PathDown, Medium),
    row(&[BrokenOrUnreachablePort, BeganAfter], &[], PeerDown, Medium),
    row(&[PortUnreachable, RefusedBetween], &[], PathDown, Medium),
    // What broke the connection may be the same thing; nothing is known of the host.
    open(&[Broken, RefusedBetween], &[FlowForgotten, PeerDown]),
    row(&[PortUnreachable, RefusedByTarget], &[], PeerDown, Medium),
    row(&[BrokenOrUnreachablePort, FreshRefused], &[], PeerDown, Low).and(&[PortUnreachable]),
    row(&[Broken, FreshEchoed, IdledTooLong], &[], IdleExpired, Medium),
    open(&[ClosedInOrder, FreshEchoed], &[]),
    open(&[BrokenOrUnreachablePort], &[FlowForgotten, PeerDown]),
    // It ended in silence.
    // A process that is gone has its host answer by RST: in silence the host or the path was gone as well, or first.
    row(
        &[Lost, ReplacedBefore],
        &[OthersLost, FreshNoAnswer, NoGateway, NoCarrier, RefusedBetween],
        PeerDown,
        High,
    ),
    open(&[Lost, ReplacedBefore], &[PeerDown, PathDown]).and(BESIDE),
    open(&[Lost, AnotherAnswers], &[FlowForgotten, PeerDown, PathDown]),
    row(&[Lost, FreshNoRoute], &[], PathDown, High).and(BESIDE),
    row(&[Lost, NoCarrier], &[], PathDown, High).and(BESIDE),
    row(&[Lost, NoGateway], &[], PathDown, High).and(BESIDE),
    row(&[Lost, FreshForbidden], &[], PathDown, Medium).and(BESIDE),
    row(&[Lost, RefusedBetween], &[], PathDown, Medium).and(BESIDE),
    row(&[Lost, FreshSmallOnly], &[], PathDown, Medium).and(BESIDE),
    row(&[Lost, ReportedOnlyAfter], &[RemotePartlyPaused], PathDown, Medium).and(BESIDE),
    open(&[Lost, RemotePartlyPaused], &[PathDown, PeerPaused]),
    // Others were lost, and passed, and this flow was silent all the time: of it alone, or not for as long as they.
    open(&[Lost, OthersLost, EchoedMeanwhile], &[FlowForgotten, PathDown]).and(BESIDE),
    row(&[Lost, FreshEchoed, OthersLost], &[], PathDown, Medium).and(BESIDE),
    row(&[Lost, FreshEchoed, SentSince, IdledTooLong], &[], IdleExpired, Medium).and(&[StillRuns]),
    row(&[Lost, FreshEchoed, SentSince], &[], FlowForgotten, Medium).and(&[StillRuns]),
    // That others pass afterwards does not show that they would have before, nor that this one would not.
    open(&[Lost, FreshEchoed], &[FlowForgotten, PathDown]).and(&[EchoedMeanwhile, StillRuns]),
    open(&[Lost, EchoedMeanwhile, FreshNoAnswer], &[FlowForgotten, PathDown]).and(BESIDE),
    // Its host may have stood still or gone first, and who could tell is gone too.
    open(&[Lost, ReplacedAfter], &[PathDown, PeerDown, PeerPaused]).and(BESIDE),
    row(&[Lost, FreshNoAnswer], &[], PathDown, Medium).and(BESIDE),
    row(&[Lost, StillRuns, Unanswered], &[], PathDown, Medium).and(BESIDE),
    open(&[Lost, FreshRefused], &[PathDown, PeerDown]).and(BESIDE),
    open(&[Lost, FreshNoHost], &[PeerDown, PathDown]).and(BESIDE),
    open(&[Lost, FreshConnected], &[FlowForgotten, PeerPaused, PathDown]).and(BESIDE),
    open(&[Lost, FreshOnlyConnected], &[FlowForgotten, PeerPaused, PathDown]).and(BESIDE),
    // That this host has no port left, or no memory, says nothing of the way.
    open(&[Lost, StillRuns, NotBegun], &[FlowForgotten, PathDown]).and(BESIDE),
    open(&[Lost, NotBegun], &[]).and(BESIDE),
    open(&[Lost, FreshFailed], &[]).and(BESIDE),
    open(&[Lost], &[]).and(BESIDE),
    open(&[], &[]),
];

/// The row that fits; the last one always does.
pub(super) fn row_of(facts: &Facts) -> &'static Row {
    let fits = TABLE.iter().find(|row| row.fits(facts));
    fits.unwrap_or(&TABLE[TABLE.len() - 1])
}

/// The table as docs/verdicts.md has it.
pub fn markdown() -> String {
    use std::fmt::Write as _;
    let mut out = "| # | facts | unless | verdict | confidence |\n|---|---|---|---|---|\n".to_owned();
    for (number, row) in (1..).zip(TABLE) {
        let words = |facts: &[Fact]| facts.iter().map(|fact| fact.words()).collect::<Vec<_>>().join("; ");
        let needs = if row.needs.is_empty() { "anything else".to_owned() } else { words(row.needs) };
        let verdicts: Vec<String> = row.could_be.iter().map(|verdict| format!("`{verdict}`")).collect();
        let verdict = match verdicts.as_slice() {
            [] => format!("`{}`", row.verdict),
            could_be => format!("`unknown`: {}, not told apart", could_be.join(" or ")),
        };
        let confidence = row.confidence.name();
        let _ = writeln!(out, "| {number} | {needs} | {} | {verdict} | {confidence} |", words(row.unless));
    }
    out
}
