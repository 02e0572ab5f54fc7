//! A query that has no whole answer: what is said of it, and what to do about it.

use crate::error::{Loss, Trouble};
use crate::query::Asker;
use crate::under_way::Meanwhile;
use crate::violation::{REPORT_IT, is_of_this_side, to_do};
use crate::{Config, Error, Stop, Target, ending};
use fathom_core::query::{CANCELLED, LATE, NOT_WAITED_FOR, ServerState};
use fathom_core::units::narrow::time_or_dash;
use std::io::ErrorKind;
use std::time::Duration;

/// What this host stood still for longer is told as a cause; the screen tells it too.
const LONG_NS: u64 = 100_000_000;
/// A gateway or a firewall lets none idle for much longer; SQL Server itself lets each.
const BETWEEN: Duration = Duration::from_mins(1);

/// What kind of failure it was: of those that are alike one is told, and how many others there were.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The server says why, by this code: the query failed, or its session ended.
    Refused(String),
    Ended(String),
    Closed,
    Broke(ErrorKind),
    NotUnderstood,
    Late,
    Stopped,
}

impl Kind {
    pub(crate) fn of(trouble: &Trouble) -> Self {
        match trouble {
            Trouble::Refused(refusal) => Self::Refused(refusal.code.clone()),
            Trouble::Lost(Loss::Told(refusal)) => Self::Ended(refusal.code.clone()),
            Trouble::Lost(Loss::Closed) => Self::Closed,
            Trouble::Lost(Loss::Broke { kind, .. }) => Self::Broke(*kind),
            Trouble::Lost(Loss::NotUnderstood { .. }) => Self::NotUnderstood,
            Trouble::Late { .. } => Self::Late,
            Trouble::Stopped { .. } | Trouble::Left { .. } => Self::Stopped,
        }
    }
}

/// Whether the user ended it. To be asked once, when the query is over: what its row says, and what the run does.
pub(crate) fn is_cancelled(trouble: &Trouble, stop: &Stop) -> bool {
    match trouble {
        Trouble::Stopped { .. } | Trouble::Left { .. } => true,
        // What follows a request to cancel is nobody's fault.
        Trouble::Refused(_) | Trouble::Lost(_) => stop.times() > 0,
        Trouble::Late { .. } => false,
    }
}

/// As its row has it.
pub(crate) fn words(trouble: &Trouble, is_cancelled: bool) -> String {
    let ours = |words: String| if is_cancelled { format!("{CANCELLED}{words}") } else { words };
    match trouble {
        Trouble::Refused(refusal) | Trouble::Lost(Loss::Told(refusal)) => {
            let words = refusal.words();
            // Whatever a server says, it says nothing in our name.
            let is_as_ours = [CANCELLED, LATE, NOT_WAITED_FOR].iter().any(|own| words.starts_with(own));
            ours(if is_as_ours { format!("the server says: {words}") } else { words })
        }
        Trouble::Lost(loss) => ours(loss.to_string()),
        Trouble::Late { why, .. } => why.clone(),
        Trouble::Stopped { .. } | Trouble::Left { .. } => NOT_WAITED_FOR.to_owned(),
    }
}

/// Of a query that nobody cancelled. This process had not run for so long, since the answer before.
pub(crate) fn failure(
    trouble: &Trouble,
    asker: &Asker<'_>,
    number: &str,
    stood_ns: u64,
    meanwhile: Meanwhile,
) -> Option<Error> {
    let address = asker.login.server.address();
    match trouble {
        Trouble::Stopped { .. } | Trouble::Left { .. } => None,
        Trouble::Refused(refusal) => {
            let to_do = asker.session.remedy(refusal, &asker.sql, asker.config);
            Some(Error::run(format!("query {number} failed at {address}: {}; {to_do}", refusal.words())))
        }
        Trouble::Late { why, is_unanswered: true } => Some(Error::run(format!(
            "query {number} was given up at {address}: {why}; {}, or give a query longer by --timeout",
            of_silence(meanwhile, &address)
        ))),
        Trouble::Late { why, is_unanswered: false } => Some(Error::run(format!(
            "query {number} was given up at {address}: {why}; give a query longer by --timeout, or see what it waits for at the server"
        ))),
        Trouble::Lost(loss) => {
            // Where the server was seen to have ended it, nobody has to guess.
            let gone = asker.looks.as_ref().and_then(|looks| looks.gone());
            Some(Error::run(format!(
                "query {number} has no whole answer from {address}: {loss}; {}",
                of_a_lost_session(loss, asker.config, stood_ns, gone.as_deref())
            )))
        }
    }
}

/// What to do about a server that did not answer a query, nor the request to cancel it.
fn of_silence(meanwhile: Meanwhile, address: &str) -> String {
    let reach = format!("can be reached (fathom probe {address} --connect)");
    match meanwhile {
        Meanwhile::Answered(state) => {
            let does = match state {
                ServerState::Working => "is at work",
                ServerState::Sending => "is blocked on sending",
                ServerState::Done => "has sent its answer",
                ServerState::Before => "idles",
                ServerState::Untaken => "has not taken the query up",
            };
            format!(
                "meanwhile the server answers on another session, and says there that this one {does}: its backend (a process or thread) is stopped \
                 or blocked, or its answers are lost on the way of this connection alone; see what it does at the server"
            )
        }
        Meanwhile::Unanswered => format!(
            "nor was anything else asked of the server answered meanwhile: see that it runs (the kernel of one that is stopped takes connections \
             all the same), and {reach}"
        ),
        Meanwhile::Unknown => format!("see that the server {reach}"),
    }
}

/// What to do about a session that was ended. One that is idle for longer than the server allows, from one query to the next or while this
/// process did not run, is ended before the next is asked: with a word, or without.
fn of_a_lost_session(loss: &Loss, config: &Config, stood_ns: u64, gone: Option<&str>) -> String {
    let ended = match (loss, gone) {
        (Loss::Told(refusal), _) => ending::by(refusal, &config.target).to_owned(),
        (Loss::NotUnderstood { .. }, _) => return to_do(config.target.server().port),
        (Loss::Broke { kind, .. }, _) if is_of_this_side(*kind) => return REPORT_IT.to_owned(),
        (Loss::Closed | Loss::Broke { .. }, Some(gone)) => gone.to_owned(),
        (Loss::Closed | Loss::Broke { .. }, None) => ending::without_a_word(&config.target).to_owned(),
    };
    let beside = config.every.map_or_else(String::new, |every| format!(", beside the {every:?} of --every"));
    // Who ends sessions that ask nothing, by what, and the least that it can be: MySQL's counts seconds.
    let (who, limits, least) = match config.target {
        Target::Postgres(_) => ("the server", "idle_session_timeout", Duration::ZERO),
        Target::Mysql(_) => ("the server", "wait_timeout", Duration::from_secs(1)),
        Target::Mssql(_) => {
            ("a gateway or a firewall between", "SQL Server itself ends none that is idle", BETWEEN)
        }
    };
    let stood = (stood_ns >= LONG_NS.max(least.as_nanos() as u64))
        .then(|| format!("{} before that{beside}", time_or_dash(Some(stood_ns), 3)));
    let writes = if matches!(config.target, Target::Mysql(_)) { ", net_write_timeout" } else { "" };
    let was_idle = match loss {
        Loss::Told(refusal) if !refusal.was_idle => return ended,
        Loss::Told(_) => true,
        // One that says nothing may be one that says so nowhere.
        _ => false,
    };
    match (stood, config.every, was_idle) {
        (Some(stood), _, true) => {
            format!(
                "this host stood still for {stood}, and {who} lets no session idle for so long ({limits})"
            )
        }
        (Some(stood), _, false) => format!(
            "this host stood still for {stood}: {who} may end a session whose client takes nothing, or asks nothing, for so \
             long ({limits}{writes}); or {ended}"
        ),
        (None, Some(every), true) => {
            format!(
                "{who} lets no session idle for the {every:?} of --every ({limits}): ask more often, or raise it"
            )
        }
        (None, Some(every), false) if every >= least => {
            format!("{ended}; or {who} lets none idle for the {every:?} of --every ({limits})")
        }
        (None, _, _) => ended,
    }
}

/// What became of a query that the user ended, where that is not what the server makes of every such query.
pub(crate) fn came_after(trouble: &Trouble) -> String {
    match trouble {
        Trouble::Lost(loss) => format!(", and then {loss}"),
        Trouble::Stopped { is_unanswered: true } => ", before its answer came".to_owned(),
        Trouble::Left { why } => format!(", before its answer came{why}"),
        Trouble::Stopped { is_unanswered: false } => ", before all of its answer was taken".to_owned(),
        Trouble::Refused(_) | Trouble::Late { .. } => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Refusal;
    use crate::tests::config_of;

    /// SQL Server was said to have limits of `PostgreSQL` and `MySQL` (a stranger); it has none.
    #[test]
    fn lost_session_advice_matches_server_kind() {
        for (scheme, own) in
            [("postgres", "idle_session_timeout"), ("mysql", "wait_timeout"), ("mssql", "a firewall between")]
        {
            let target = Target::parse(&format!("{scheme}://me@db/d"), |_| None).unwrap();
            for every in [1, 3_600] {
                let config = Config { every: Some(Duration::from_secs(every)), ..config_of(target.clone()) };
                let told = of_a_lost_session(&Loss::Closed, &config, 0, None);
                let expected = every > 1 || scheme != "mssql";
                assert_eq!(told.contains(own), expected, "{told}");
                assert!(scheme != "mssql" || !told.contains("the server lets"), "{told}");
                assert!(!told.contains(" of PostgreSQL"), "{told}");
            }
            let stood = of_a_lost_session(&Loss::Closed, &config_of(target), 120_000_000_000, None);
            let who = if scheme == "mssql" { "a gateway or a firewall between" } else { "the server" };
            assert!(stood.contains(&format!("{who} may end a session")), "{stood}");
            assert!(stood.contains(own), "{stood}");
        }
    }

    /// The kind was read out of the words: two sessions that end by the same code, in other words, were of two kinds, and one whose words
    /// have a bracket of their own was of another.
    #[test]
    fn what_is_alike_is_so_by_its_code() {
        let told = |code: &str, message: &str| {
            Trouble::Lost(Loss::Told(Refusal {
                code: code.to_owned(),
                message: message.to_owned(),
                ..Refusal::default()
            }))
        };
        let broke = |kind, words: &str| Trouble::Lost(Loss::Broke { kind, words: words.to_owned() });
        let admin = told("57P01", "terminating connection due to administrator command");
        assert_eq!(Kind::of(&admin), Kind::of(&told("57P01", "beende Verbindung (auf Befehl)")));
        assert_ne!(Kind::of(&admin), Kind::of(&told("57P05", "idle")));
        assert_ne!(Kind::of(&admin), Kind::of(&Trouble::Lost(Loss::Closed)));
        let reset = broke(ErrorKind::ConnectionReset, "reset (os error 104)");
        assert_eq!(Kind::of(&reset), Kind::of(&broke(ErrorKind::ConnectionReset, "reset")));
        assert_ne!(Kind::of(&reset), Kind::of(&broke(ErrorKind::InvalidData, "nonsense (os error 104)")));
    }
}
