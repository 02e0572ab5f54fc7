//! What a server of `MySQL`'s kind shows of another session.

use crate::Error;
use crate::protocol::{Seen, Watch};
use fathom_core::query::ServerState;

/// How the session of this number is seen, where the greeting named one. Everybody sees the sessions of his own user.
pub(super) fn watch(number: u64, greeted: u32) -> Watch {
    Watch {
        sql: format!("SELECT COMMAND, STATE FROM information_schema.PROCESSLIST WHERE ID = {number}"),
        of: None,
        // The greeting has only the low half of the number.
        is_anothers: number as u32 != greeted,
        read: state,
        unlisted: format!(
            "the server does not list session {number}: where it is another user's, as behind a proxy, GRANT PROCESS ON *.* TO the user; else it \
             has ended"
        ),
        gone: format!(
            "session {number} is gone from the server, which listed it before: somebody ended it (KILL), or a proxy between did"
        ),
        grant: None,
        waits: None,
    }
}

/// <https://mariadb.com/docs/server/ha-and-performance/optimization-and-tuning/buffers-caches-and-threads/thread-states/general-thread-states>,
/// <https://dev.mysql.com/doc/refman/8.4/en/general-thread-states.html>.
fn state(answer: Vec<Option<String>>) -> Result<Seen, Error> {
    let Ok([command, state]) = <[Option<String>; 2]>::try_from(answer) else {
        return Err(Error::run("the server describes the session by other columns than were asked for"));
    };
    let state = state.filter(|state| !state.is_empty());
    // It has sent everything, or has not begun: where all threads of a pool are busy, or it stands still, a session that has its
    // request sleeps as well.
    if command.as_deref() == Some("Sleep") {
        return Ok((ServerState::Before, None));
    }
    Ok(match state.as_deref() {
        // Of MariaDB and MySQL to 5.7.7, and of MySQL since.
        Some("Writing to net" | "Sending to client") => (ServerState::Sending, state),
        // Most states say what is done, and not what is waited for.
        Some(wait) if wait == "User sleep" || wait.starts_with("Waiting") => (ServerState::Working, state),
        _ => (ServerState::Working, None),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where it stands still, or all threads of a pool are busy, a session that has its request sleeps as well: that was the path's time.
    #[test]
    fn a_session_that_sleeps_may_not_have_begun() {
        let states = [
            (Some("Sleep"), None, ServerState::Before),
            (Some("Query"), Some("Writing to net"), ServerState::Sending),
            (Some("Query"), Some("Sorting result"), ServerState::Working),
        ];
        for (command, what, expected) in states {
            let (seen, _) = state([command, what].map(|text| text.map(str::to_owned)).into()).unwrap();
            assert_eq!(seen, expected, "{command:?} {what:?}");
        }
        assert!(state(Vec::new()).is_err());
    }
}
