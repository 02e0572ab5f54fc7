//! What SQL Server shows, and counts, of another session.

use crate::Error;
use crate::protocol::{Seen, Shown, Waits, Watch};
use fathom_core::query::{Counted, ServerState};

/// What lets a login see what the server does for others: Microsoft's documentation of these views.
macro_rules! grant {
    () => {
        "GRANT VIEW SERVER STATE TO the login lets it (since SQL Server 2022 VIEW SERVER PERFORMANCE STATE is enough; in a database of Azure it is \
         VIEW DATABASE STATE)"
    };
}

/// What SQL Server waits for where its client takes nothing more.
const NETWORK: &str = "ASYNC_NETWORK_IO";
const UNSEEN: &str = concat!("the server does not show other sessions; ", grant!());

/// How the session of this number is seen, and what is counted of it.
pub(super) fn watch(spid: i32) -> Watch {
    // A session that is there and has no request is done; who may not see it has no row.
    let sql = format!(
        "SELECT s.session_id, r.status, r.wait_type, \
         CASE WHEN s.last_request_end_time > DATEADD(minute, -30, SYSDATETIME()) \
         AND s.last_request_end_time < DATEADD(minute, 30, SYSDATETIME()) \
         THEN DATEDIFF(microsecond, s.last_request_end_time, SYSDATETIME()) END AS idle_us \
         FROM sys.dm_exec_sessions AS s LEFT JOIN sys.dm_exec_requests AS r ON r.session_id = s.session_id WHERE s.session_id = {spid}"
    );
    // Of one that never waited there is no row, and of one that may not be seen no session.
    let waits = format!(
        "SELECT s.session_id, w.waiting_tasks_count, w.wait_time_ms FROM sys.dm_exec_sessions AS s \
         LEFT JOIN sys.dm_exec_session_wait_stats AS w ON w.session_id = s.session_id AND w.wait_type = '{NETWORK}' \
         WHERE s.session_id = {spid}"
    );
    // "VIEW SERVER STATE permission was denied", where even to ask is refused.
    let grant = Some(("error 300", grant!().to_owned()));
    Watch {
        sql,
        of: None,
        is_anothers: false,
        read: state,
        unlisted: UNSEEN.to_owned(),
        gone: format!(
            "session {spid} is gone from the server, which listed it before: somebody ended it (KILL), or a proxy, balancer or firewall did"
        ),
        grant,
        waits: Some(Waits { sql: waits, read: counted, unseen: UNSEEN }),
    }
}

/// <https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-views/sys-dm-exec-requests-transact-sql>.
fn state(answer: Vec<Option<String>>) -> Result<Seen, Error> {
    let Ok([_, status, wait, _]) = <[Option<String>; 4]>::try_from(answer) else {
        return Err(Error::run("the server describes the session by other columns than were asked for"));
    };
    Ok(match (status, wait.as_deref()) {
        // It has sent everything, or has not taken its request yet: since when it has none tells which.
        (None, _) => (ServerState::Done, None),
        (Some(_), Some(NETWORK)) => (ServerState::Sending, wait),
        (Some(_), _) => (ServerState::Working, wait),
    })
}

/// <https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-views/sys-dm-exec-session-wait-stats-transact-sql>:
/// since the session was opened.
fn counted(answer: Vec<Option<String>>) -> Result<Shown, Error> {
    let Ok([_, waits, ms]) = <[Option<String>; 3]>::try_from(answer) else { return Ok(None) };
    let number = |text: Option<String>| text.map_or(Some(0), |text| text.parse::<u64>().ok());
    let (Some(waits), Some(ms)) = (number(waits), number(ms)) else {
        return Err(Error::run("the server's counts are no numbers"));
    };
    let ns = ms.saturating_mul(1_000_000);
    Ok(Some(Counted { wait: NETWORK.to_owned(), waits, ns, lost_sessions: 0 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One that has not waited has no row of its own; one that may not be seen has none at all.
    #[test]
    fn missing_wait_is_zero_missing_session_unknown() {
        let answer = |waits: Option<&str>, ms: Option<&str>| {
            counted([Some("51"), waits, ms].map(|text| text.map(str::to_owned)).to_vec())
        };
        let known = answer(Some("3"), Some("4500")).unwrap().unwrap();
        assert_eq!((known.wait.as_str(), known.waits, known.ns), ("ASYNC_NETWORK_IO", 3, 4_500_000_000));
        let none = answer(None, None).unwrap().unwrap();
        assert_eq!((none.waits, none.ns), (0, 0));
        assert!(answer(Some("x"), None).is_err());
        assert_eq!(counted(Vec::new()).unwrap(), None);
    }

    /// SQL Server shows no request of one that it has not taken yet, as of one that is over; without a time nobody knows which.
    #[test]
    fn session_without_request_may_not_have_started() {
        let answer = |status: Option<&str>, wait: Option<&str>| {
            [Some("51"), status, wait, None].map(|text| text.map(str::to_owned)).to_vec()
        };
        let server = |status, wait| state(answer(status, wait)).unwrap().0;
        assert_eq!(server(None, None).believed(None, 5, false), ServerState::Before);
        assert_eq!(server(Some("running"), None), ServerState::Working);
        assert_eq!(server(Some("suspended"), Some("ASYNC_NETWORK_IO")), ServerState::Sending);
    }
}
