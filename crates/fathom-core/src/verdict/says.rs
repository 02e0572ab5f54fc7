//! The facts by which the table decides: when each holds, what docs/verdicts.md calls it, and its sentence.

use super::facts::{Acknowledged as Ack, Facts, Outcome, Room};
use super::server::Server;
use super::way;
use super::{Direction, Fresh, SaidBy, seconds};
use crate::cause::ClosingCause as C;
use crate::peer_report::{Failure, Standing};
use crate::text::count;

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fact {
    Survived,
    GoesOn,
    Lost,
    Broken,
    BrokenOrUnreachablePort,
    ClosedInOrder,
    PortUnreachable,
    DestroyedHere,
    AddressGone,
    NoRouteHere,
    NotAnEcho,
    LocalPauseExplains,
    RemotePauseExplains,
    RemotePauseWouldExplain,
    RemotePartlyPaused,
    TellsPauses,
    RequestWaited,
    Acknowledged,
    AcknowledgedAlone,
    NothingElseOut,
    NothingLateBefore,
    NotAcknowledged,
    Relayed,
    TriedInVain,
    SentAgain,
    OutOfOrder,
    CameAgain,
    NothingCameAgain,
    LocalPartlyPaused,
    EchoLate,
    RanMeanwhile,
    RequestLate,
    ReadWhenever,
    WaysLate,
    DatagramsCounted,
    NeverAnswered,
    ReportedForward,
    ReportedReturn,
    ReportedOnlyAfter,
    ClosedIdleThere,
    NotItsDoing,
    DestroyedThere,
    AnsweredByReplacement,
    StillRuns,
    ReplacedBefore,
    ReplacedSoon,
    ReplacedAfter,
    AnotherAnswers,
    BeganAfter,
    IdledTooLong,
    OthersLost,
    Unanswered,
    EchoedMeanwhile,
    SentSince,
    FreshEchoed,
    FreshSmallOnly,
    FreshConnected,
    FreshOnlyConnected,
    FreshRefused,
    FreshNoAnswer,
    FreshNoHost,
    FreshNoRoute,
    FreshForbidden,
    NotBegun,
    FreshFailed,
    RefusedBetween,
    RefusedByTarget,
    NoGateway,
    NoCarrier,
}

impl Fact {
    /// Whether it holds.
    pub(super) fn holds(self, facts: &Facts) -> bool {
        let reported = facts.reported;
        let standing = reported.map(|reported| reported.report.standing);
        let told = facts.told_direction();
        let broken = facts.is_closed_by(&[C::PeerClosed, C::Reset]);
        match self {
            Self::Survived => matches!(facts.outcome, Outcome::Recovered | Outcome::GoesOn),
            Self::GoesOn => facts.outcome == Outcome::GoesOn,
            Self::Lost => facts.is_lost(),
            Self::Broken => broken,
            Self::BrokenOrUnreachablePort => broken || facts.port_unreachable,
            Self::ClosedInOrder => facts.is_closed_by(&[C::PeerClosed]),
            Self::PortUnreachable => facts.port_unreachable,
            Self::DestroyedHere => facts.destroyed_here,
            Self::AddressGone => facts.address_gone,
            Self::NoRouteHere => facts.fresh == Fresh::NoRoute && facts.fresh_said_by == SaidBy::ThisHost,
            Self::NotAnEcho => facts.not_an_echo,
            Self::LocalPauseExplains => facts.local_pause_explains(),
            Self::RemotePauseExplains => facts.remote_pause_explains().is_some(),
            Self::RemotePauseWouldExplain => facts.remote_pause_would_explain().is_some(),
            Self::RemotePartlyPaused => facts.has_remote_pause(),
            // It tells them with an echo, and none has come yet where the silence goes on.
            Self::TellsPauses => facts.tells_pauses && facts.outcome != Outcome::GoesOn,
            Self::RequestWaited => facts.request_waited(),
            Self::Acknowledged => matches!(facts.acknowledged, Ack::Late | Ack::Alone),
            Self::AcknowledgedAlone => facts.acknowledged == Ack::Alone && !facts.out_of_order,
            Self::NothingElseOut => facts.room == Room::Sure,
            Self::NothingLateBefore => facts.room == Room::Likely,
            Self::NotAcknowledged => facts.acknowledged == Ack::No,
            Self::Relayed => facts.is_relayed(),
            Self::TriedInVain => facts.tried_in_vain(),
            Self::SentAgain => facts.retransmits.is_some_and(|n| n > 0),
            Self::OutOfOrder => facts.out_of_order,
            Self::CameAgain => facts.has_come_again(),
            Self::NothingCameAgain => facts.came_again == Some(0),
            Self::LocalPartlyPaused => facts.has_local_pause(),
            Self::EchoLate => way::by_stamps(facts) == Some(Direction::Return),
            Self::RanMeanwhile => facts.tells_pauses && facts.paused_after_ns.is_some(),
            Self::RequestLate => way::by_stamps(facts) == Some(Direction::Forward),
            // A datagram may have come long before it was read and stamped.
            Self::ReadWhenever => !facts.tells_pauses && facts.acknowledged == Ack::NotKnown,
            Self::WaysLate => facts.ways_were_late(),
            Self::NeverAnswered => !facts.ever_answered,
            Self::DatagramsCounted => facts.datagrams.is_some_and(|datagrams| datagrams.missing > 0),
            Self::ReportedForward => told == Some(Direction::Forward),
            Self::ReportedReturn => told == Some(Direction::Return),
            Self::ReportedOnlyAfter => {
                facts.is_lost() && reported.is_some_and(|reported| reported.received_after(facts.ended_ns))
            }
            Self::ClosedIdleThere => standing == Some(Standing::ClosedIdle) && facts.is_lost(),
            Self::NotItsDoing => reported.is_some_and(|reported| reported.is_not_its_doing()),
            Self::DestroyedThere => {
                let who = reported.and_then(|reported| reported.report.responder);
                who.is_some_and(|who| who.failure == Some(Failure::Aborted))
            }
            Self::AnsweredByReplacement => {
                facts.served_by.zip(facts.answered_by).is_some_and(|(served, answers)| {
                    served != answers && fathom_wire::is_same_place(served, answers)
                })
            }
            Self::StillRuns => facts.server() == Server::Same,
            Self::ReplacedBefore => facts.server() == Server::ReplacedBefore,
            Self::ReplacedSoon => facts.server() == Server::ReplacedSoon,
            Self::ReplacedAfter => {
                matches!(facts.server(), Server::ReplacedSoon | Server::ReplacedLater)
            }
            Self::AnotherAnswers => facts.server() == Server::Elsewhere,
            Self::BeganAfter => facts.server() == Server::BeganAfter,
            Self::IdledTooLong => facts.idled_too_long(),
            Self::OthersLost => facts.others_lost,
            Self::Unanswered => {
                matches!(facts.fresh, Fresh::Refused | Fresh::NoHost | Fresh::Failed | Fresh::NotTried)
                    && !Self::NotBegun.holds(facts)
            }
            Self::EchoedMeanwhile => facts.meanwhile == Fresh::Echoed,
            Self::SentSince => facts.sent_since,
            Self::FreshEchoed => facts.fresh == Fresh::Echoed,
            Self::FreshSmallOnly => facts.fresh == Fresh::SmallOnly,
            Self::FreshConnected => facts.fresh == Fresh::Connected,
            Self::FreshOnlyConnected => facts.fresh == Fresh::OnlyConnected,
            Self::FreshRefused => facts.fresh == Fresh::Refused,
            Self::FreshNoAnswer => facts.fresh == Fresh::NoAnswer,
            Self::FreshNoHost => facts.fresh == Fresh::NoHost,
            Self::FreshNoRoute => facts.fresh == Fresh::NoRoute,
            Self::FreshForbidden => facts.fresh == Fresh::Forbidden,
            Self::NotBegun => facts.fresh == Fresh::Failed && facts.fresh_said_by == SaidBy::ThisHost,
            Self::FreshFailed => facts.fresh == Fresh::Failed,
            Self::RefusedBetween => {
                facts.fresh == Fresh::Refused && matches!(facts.fresh_said_by, SaidBy::Between(_))
            }
            Self::RefusedByTarget => facts.fresh == Fresh::Refused && facts.fresh_said_by == SaidBy::Target,
            Self::NoGateway => matches!(facts.fresh_said_by, SaidBy::NoGateway(_)),
            Self::NoCarrier => facts.fresh_said_by == SaidBy::NoCarrier,
        }
    }

    /// What the documentation calls it.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Survived => "the connection lives",
            Self::GoesOn => "the silence goes on when the run ends",
            Self::Lost => "the connection ended",
            Self::Broken => "it ended by a FIN or a RST",
            Self::BrokenOrUnreachablePort => "it ended by a FIN, a RST or \"port unreachable\"",
            Self::ClosedInOrder => "it ended by a FIN",
            Self::PortUnreachable => "it ended by \"port unreachable\"",
            Self::DestroyedHere => "this host's kernel destroyed the socket",
            Self::AddressGone => "this host no longer had the connection's own address",
            Self::NoRouteHere => "this host's own routing table had no way for a fresh connection",
            Self::NotAnEcho => "what came was no echo, and the probe ended the connection for that",
            Self::LocalPauseExplains => {
                "this host did not run, no shorter than the reflector, and without that the silence would be nothing to speak of"
            }
            Self::RemotePauseExplains => {
                "the reflector says that it did not run for half of the silence or more, and the missing request was what it read first after that, or had been acknowledged and without that pause the silence would be nothing to speak of; or a later echo says so of the time after the stamp of the one that ended the silence; or the pause that it told when asked covers nine tenths of the silence before an end"
            }
            Self::RemotePauseWouldExplain => {
                "a reflector that does not say what waited for it did not run, and without that the silence would be nothing to speak of"
            }
            Self::RemotePartlyPaused => "the reflector did not run for a fifth of the silence or more",
            Self::TellsPauses => "the reflector is one that tells its pauses",
            Self::RequestWaited => "the request waited for a pause of the reflector to end",
            Self::Acknowledged => "the missing request was acknowledged before its echo came",
            Self::AcknowledgedAlone => {
                "the missing request was acknowledged alone, earlier than a lost echo could have been sent again"
            }
            Self::NothingElseOut => {
                "no later request was out then, and the four echoes before had come in time"
            }
            Self::NothingLateBefore => {
                "later requests were out then, no more than a window of them; no echo of the connection had come 150 ms late before, and others came with the missing one"
            }
            Self::NotAcknowledged => "the missing request was not acknowledged when last looked at",
            Self::Relayed => {
                "the connection arrives at the reflector from another port: something between speaks in its name, or translates"
            }
            Self::TriedInVain => "the kernel's retransmission timer ran out twice or more in a row",
            Self::SentAgain => "the kernel sent something again",
            Self::OutOfOrder => "later data came while earlier was missing",
            Self::CameAgain => "segments came that had come before",
            Self::NothingCameAgain => "this host's kernel would have told of such a segment",
            Self::LocalPartlyPaused => "this host did not run for a fifth of the silence or more",
            Self::EchoLate => {
                "by the stamps of the first late echo, the one before having come in time and neither end having stood still for a fifth of the silence, the way back took four fifths or more of what it was late by, and no segment came that had come before"
            }
            Self::RanMeanwhile => "a later echo tells what the reflector did after the stamp of that one",
            Self::RequestLate => "by these stamps the way there did",
            Self::ReadWhenever => {
                "the reflector tells no pauses and no kernel acknowledged the request, so that it may have waited there to be read"
            }
            Self::WaysLate => {
                "by the stamps of the first late echo its ways took half of the silence or more, and neither end stood still for a fifth of it"
            }
            Self::NeverAnswered => "nothing had been echoed on the connection before",
            Self::DatagramsCounted => "the reflector's count says which of the missing datagrams it received",
            Self::ReportedForward => "the reflector says that it received none of the missing requests",
            Self::ReportedReturn => {
                "the reflector says that it received the first missing request, within the silence; this host ran, and no segment came that had come before"
            }
            Self::ReportedOnlyAfter => "the reflector read from the connection after its end here",
            Self::ClosedIdleThere => {
                "the reflector says that it closed the connection because nothing had moved on it"
            }
            Self::NotItsDoing => "the reflector knows the connection, and did not end it",
            Self::DestroyedThere => "the reflector's host destroyed its socket",
            Self::AnsweredByReplacement => {
                "the echo that ended the silence is of another process at the reflector's place"
            }
            Self::StillRuns => "the reflector that answers is the process that served it",
            Self::ReplacedBefore => "another process is at the reflector's place, which began before the end",
            Self::ReplacedAfter => "another process is at the reflector's place, which began after the end",
            Self::ReplacedSoon => {
                "another process is at the reflector's place, which began within a minute of the end"
            }
            Self::AnotherAnswers => "a reflector at another place answers behind the same address",
            Self::BeganAfter => {
                "who served it did not say who it was, and the reflector that answers began within a minute of the end"
            }
            Self::IdledTooLong => {
                "nothing had passed for more than a second, and longer than any connection of this path survived: either for more than twice as long, or it is the second end of that kind"
            }
            Self::OthersLost => {
                "a fresh connection tried during the silence had no answer for a second or more"
            }
            Self::Unanswered => "no fresh connection was answered",
            Self::EchoedMeanwhile => "one was during the silence",
            Self::SentSince => {
                "one was during the silence, and what was sent on this one after that had no answer"
            }
            Self::FreshEchoed => "a fresh connection was echoed",
            Self::FreshSmallOnly => {
                "a fresh connection was echoed in small and not in the missing sample's size"
            }
            Self::FreshConnected => "a fresh connection was established and not echoed",
            Self::FreshOnlyConnected => "a fresh connection was established, and nothing was asked on it",
            Self::FreshRefused => "a fresh connection was refused",
            Self::FreshNoAnswer => "a fresh connection got no answer",
            Self::FreshNoHost => "a fresh connection met \"no route to host\"",
            Self::FreshNoRoute => "a fresh connection met \"network unreachable\"",
            Self::FreshForbidden => "a fresh connection was forbidden by a filter",
            Self::NotBegun => "this host could not begin a fresh connection",
            Self::FreshFailed => "a fresh connection failed in another way",
            Self::RefusedBetween => {
                "a fresh connection was refused by an ICMP message of another address than the target's"
            }
            Self::RefusedByTarget => {
                "a fresh connection was refused by an ICMP message of the target's own address"
            }
            Self::NoGateway => {
                "a fresh connection could not leave: the gateway did not answer for its hardware address"
            }
            Self::NoCarrier => {
                "a fresh connection could not leave: its interface here is down or has no carrier"
            }
        }
    }

    /// What it says of these facts; `None`: nothing that another sentence does not say.
    pub(super) fn sentence(self, facts: &Facts) -> Option<String> {
        let silent = seconds(facts.silent_ns);
        let who = facts.reported.and_then(|reported| reported.report.responder);
        let age = who.map_or_else(String::new, |who| seconds(who.age_ns));
        Some(match self {
            Self::LocalPauseExplains => {
                format!("this host did not run for {} of the {silent} of silence", seconds(facts.local_pause_ns))
            }
            Self::RemotePauseExplains => format!(
                "the reflector reports that it did not run for {} of the {silent} of silence{}",
                seconds(facts.remote_pause_explains()?.min(facts.silent_ns)),
                match (facts.is_lost(), facts.echo_waited()) {
                    (true, _) => "",
                    (_, true) => ", between its stamp of the echo and the sending of it",
                    _ => ", and then read what had waited",
                }
            ),
            Self::RemotePauseWouldExplain => format!(
                "the reflector reports that it did not run for {} in the {silent} of silence",
                seconds(facts.remote_pause_would_explain()?)
            ),
            Self::RemotePartlyPaused => {
                "the reflector also reports a pause in that time, which does not account for the silence".into()
            }
            Self::NotAnEcho => {
                "the peer does not echo what it is sent, and this probe ended the connection for that: the path carried it".into()
            }
            Self::AddressGone => {
                "this host no longer had the address that the connection came from: nothing of it could leave".into()
            }
            Self::NoRouteHere => return Self::FreshNoRoute.sentence(facts),
            Self::DestroyedHere => {
                "this host's own kernel destroyed the socket: a program or an administrator here ended the connection".into()
            }
            Self::AcknowledgedAlone => format!(
                "the missing request was acknowledged at once and alone: whoever acknowledged it had no echo to send{}",
                if facts.room == Room::Sure { "" } else { ", or held it back behind one that was lost" }
            ),
            Self::Acknowledged => {
                "the missing request was acknowledged before its echo came: the one who answers it had stopped, or the echo was lost where an acknowledgement passed".into()
            }
            Self::NotAcknowledged => "the missing request was not acknowledged".into(),
            Self::Relayed => {
                "the connection arrives at the reflector from another port: something between acknowledges in its name, or translates".into()
            }
            Self::TriedInVain => {
                let times = count(facts.timeouts.into(), "time");
                format!("the kernel sent again {times} in a row without an acknowledgement")
            }
            Self::SentAgain => {
                format!("the kernel sent {} again", count(facts.retransmits?.into(), "segment"))
            }
            Self::OutOfOrder => "echoes of later samples had come, and waited here for the missing one".into(),
            Self::CameAgain => {
                let segments = count(facts.came_again?.into(), "segment");
                format!("{segments} came that had come before: the reflector's kernel sent again what it had no acknowledgement of")
            }
            Self::LocalPartlyPaused => "this host did not run for a part of that time either".into(),
            Self::EchoedMeanwhile => "one that was tried during the silence was answered".into(),
            Self::SentSince => {
                "one that was tried during the silence was answered too, and what was sent again on this one after that was not"
                    .into()
            }
            Self::TellsPauses => "the reflector reports no pause that accounts for it".into(),
            Self::ReportedOnlyAfter => {
                "the reflector read from the connection after it had ended here: its requests were held up on the way, or got through too late".into()
            }
            Self::ClosedIdleThere => {
                "the reflector says that it closed the connection, because nothing had moved on it for its idle timeout".into()
            }
            Self::NotItsDoing => {
                "the reflector knows the connection and did not end it: something between ended it in its name".into()
            }
            Self::DestroyedThere => {
                "the reflector's own host destroyed its socket: a program or an administrator there ended the connection".into()
            }
            Self::AnsweredByReplacement => {
                "the echo that ended the silence came from another process in the reflector's place: the one before had gone".into()
            }
            Self::StillRuns => format!("the reflector that served it runs, for {age} by now"),
            Self::ReplacedBefore => format!(
                "another process is in the reflector's place, for {age} when it was asked: it began before this connection ended, so the one that served it had gone"
            ),
            Self::ReplacedAfter => format!(
                "another process is in the reflector's place, for {age} when it was asked: the one that served this connection, or its whole host, may have stood still or gone first"
            ),
            Self::ReplacedSoon => format!(
                "another process is in the reflector's place, for {age} when it was asked: it began soon after this connection ended"
            ),
            Self::AnotherAnswers => {
                "a reflector at another place answers behind that address now; whether the one that served this connection runs is not known".into()
            }
            Self::BeganAfter => {
                format!("the reflector that answers now has run for {age} only: it began when this connection had ended")
            }
            Self::PortUnreachable => {
                "the answer was \"port unreachable\", by the host or by something before it".into()
            }
            Self::IdledTooLong => {
                let idle = facts.idle;
                let survived = match idle.survived_ns {
                    0 => "an earlier connection ended after such a quiet too, and none survived one".to_owned(),
                    ns => format!("longer than any quiet that a connection here survived ({})", seconds(ns)),
                };
                format!("nothing had passed for {} before, {survived}", seconds(idle.before_ns))
            }
            Self::NeverAnswered => "nothing had been echoed on this connection before".into(),
            Self::OthersLost => {
                "a fresh connection that was tried during the silence had no answer for a second or more either".into()
            }
            Self::FreshEchoed => "a fresh connection to the same target was answered".into(),
            Self::FreshSmallOnly => {
                "a fresh connection carries small samples, and one of the missing one's size did not come back: what is large is lost".into()
            }
            Self::FreshConnected => {
                "a fresh connection was established, and its sample did not come back either".into()
            }
            Self::FreshOnlyConnected => {
                "a fresh connection was established; nothing was asked on it, so it says nothing of whoever answers there".into()
            }
            Self::FreshRefused => match facts.fresh_said_by {
                SaidBy::Between(_) => return Self::RefusedBetween.sentence(facts),
                SaidBy::Target => return Self::RefusedByTarget.sentence(facts),
                _ => "a fresh connection was refused, by the host or by something before it".into(),
            },
            Self::RefusedBetween => {
                let SaidBy::Between(from) = facts.fresh_said_by else { return None };
                format!("a fresh connection was refused by {from} (ICMP), which is not the target: something before it refuses")
            }
            Self::RefusedByTarget => {
                "a fresh connection was refused by an ICMP message of the target's own address: the host is there".into()
            }
            Self::NoGateway => {
                let SaidBy::NoGateway(gateway) = facts.fresh_said_by else { return None };
                format!("a fresh connection could not leave this host's network: the gateway {gateway} did not answer for its hardware address")
            }
            Self::NoCarrier => {
                "a fresh connection could not leave this host: the interface towards the target is down or has no carrier".into()
            }
            Self::FreshNoAnswer => "a fresh connection got no answer either".into(),
            Self::FreshNoHost => format!(
                "a fresh connection met \"no route to host\": {}",
                match facts.fresh_said_by {
                    SaidBy::Between(from) => format!("{from} says that it does not reach that address"),
                    SaidBy::NoNeighbour => "the address is on this host's own network, and nobody there answers for its hardware address".into(),
                    _ => "the network, or this host, found nobody at that address".into(),
                }
            ),
            Self::FreshNoRoute => format!(
                "a fresh connection met \"network unreachable\": {} no way there",
                match facts.fresh_said_by {
                    SaidBy::Between(from) => format!("the router {from} knows"),
                    SaidBy::ThisHost => "this host knows".into(),
                    _ => "a router, or this host, knows".into(),
                }
            ),
            Self::FreshForbidden => match facts.fresh_said_by {
                SaidBy::Between(from) => format!("a fresh connection was forbidden by a filter: {from} says so, which is not the target"),
                SaidBy::Target => "a fresh connection was forbidden by a filter: the target's own address says so".into(),
                SaidBy::ThisHost => "a fresh connection was forbidden by a filter of this host".into(),
                _ => "a fresh connection was forbidden by a filter, here or on the way".into(),
            },
            Self::NotBegun => {
                "this host itself could not begin a fresh connection, so nothing was sent to see whether others pass".into()
            }
            Self::FreshFailed => "a fresh connection was ended before its sample came back".into(),
            // Said by the direction, by the cause, or by what the verdict is about.
            Self::Survived
            | Self::GoesOn
            | Self::Lost
            | Self::Broken
            | Self::BrokenOrUnreachablePort
            | Self::ClosedInOrder
            | Self::RequestWaited
            | Self::EchoLate
            | Self::RanMeanwhile
            | Self::RequestLate
            | Self::ReadWhenever
            | Self::DatagramsCounted
            | Self::WaysLate
            | Self::NothingCameAgain
            | Self::ReportedForward
            | Self::ReportedReturn
            | Self::NothingElseOut
            | Self::NothingLateBefore
            | Self::Unanswered => return None,
        })
    }
}
