//! One query, as it is recorded (`schema/recording.md`, "Queries").

use super::Split;

/// The error of a query whose answer the user did not want to wait for.
pub const NOT_WAITED_FOR: &str = "its answer was not waited for";

/// So begins the error of a query that the user ended, where something else came of it than that nobody waited.
pub const CANCELLED: &str = "cancelled by the user: ";

/// So begins the error of a query that took longer than it may.
pub const LATE: &str = "no whole answer within ";

/// How a query ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// It has its whole answer.
    Answered,
    /// The user ended it: that says nothing of the server.
    Cancelled,
    /// Of this kind: `SQLSTATE 57014` where the server said why, else whose end it was.
    Failed(String),
}

/// What is known of one query. Times in ns.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Query {
    /// Its ordinal in the run, from 0, in the order in which they ended.
    pub query: u64,
    /// Which of the connections that ask side by side it was of, from 0. One that took a lost one's place has its number.
    pub connection: u64,
    /// When its first request was handed to the kernel, ns since the Unix epoch.
    pub started_ns: i64,
    /// How much later than it was due.
    pub lateness_ns: i64,
    /// From its start to its first row; `None`: none came.
    pub first_row_ns: Option<u64>,
    /// Rows that came.
    pub rows: u64,
    /// Requests, each of which waits for its answer.
    pub turns: u64,
    /// Bytes of TCP payload here; `None`: the system does not tell. So the next four.
    pub bytes_received: Option<u64>,
    /// Bytes of TCP payload that the server acknowledged.
    pub bytes_sent: Option<u64>,
    /// Segments with payload that came.
    pub segments_received: Option<u64>,
    /// Segments that were sent again from here.
    pub retransmits: Option<u64>,
    /// The path's round trip that was reckoned with; `None`: none is known.
    pub rtt_ns: Option<u64>,
    /// Looks at the server's backend that counted.
    pub looks: u64,
    /// Whose time it took.
    pub split: Split,
    /// What the backend was seen to wait for at more than half of the looks (`IO/DataFileRead`); `None`: nothing is, or no looks.
    pub server_wait: Option<String>,
    /// For how long, while it lasted, this machine kept the thread that asks from running, as far as it was noticed; `None`: nobody
    /// knows. No row has it: of a run its end tells it.
    pub kept_ns: Option<u64>,
    /// Why it has no whole answer.
    pub error: Option<String>,
    /// It is the first of its connection or setting, which finds nothing warm.
    pub is_first: bool,
    /// The ordinal of the setting that it was asked with; `None`: the run has no sweep.
    pub setting: Option<u64>,
    /// How often its setting, or of several connections its own, had logged in anew before; `None`: nothing logs in anew.
    pub login: Option<u64>,
    /// Rows of a round trip; `None`: all of them.
    pub fetch_size: Option<u64>,
    /// The size of packets that the server granted; `None`: the protocol has none.
    pub packet_size: Option<u64>,
}

impl Query {
    /// How it ended, by its error.
    pub fn end(&self) -> End {
        let Some(error) = self.error.as_deref() else { return End::Answered };
        if error == NOT_WAITED_FOR || error.starts_with(CANCELLED) {
            return End::Cancelled;
        }
        if error.starts_with(LATE) {
            return End::Failed("timed out".to_owned());
        }
        let code = error.strip_suffix(')').and_then(|text| text.rsplit_once('(')).map(|(_, code)| code);
        let is_state = |code: &&str| {
            code.len() == 5 && code.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_uppercase())
        };
        let is_number = |code: &str| {
            code.strip_prefix("error ").is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit() || b == b'-'))
        };
        End::Failed(match code {
            Some(code) if is_state(&code) => format!("SQLSTATE {code}"),
            // SQL Server's.
            Some(code) if is_number(code) => code.to_owned(),
            // As earlier versions wrote it: nobody else cancels a batch of SQL Server.
            Some("attention") => return End::Cancelled,
            Some(code @ "no error number") => code.to_owned(),
            _ => "connection lost".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A query that Ctrl-C ended was one of the server's failures (`SQLSTATE 57014`).
    #[test]
    fn what_the_user_ended_is_no_failure() {
        for error in [
            NOT_WAITED_FOR,
            "cancelled by the user: canceling statement due to user request (57014)",
            "cancelled by the user: the server closed the connection",
            "the query was cancelled (attention)",
        ] {
            let query = Query { error: Some(error.to_owned()), ..Query::default() };
            assert_eq!(query.end(), End::Cancelled, "{error}");
        }
    }

    #[test]
    fn failures_are_counted_by_what_ended_them() {
        // The report knows them too: python/tests/dataset/test_queries.py has the same table.
        for (error, kind) in [
            ("syntax error at or near \"SELEC\" (42601)", "SQLSTATE 42601"),
            ("the connection broke: Connection reset by peer (os error 104)", "connection lost"),
            ("Invalid object name 'x'. (error 208)", "error 208"),
            ("made up by the server (error -7)", "error -7"),
            ("the server says that the statement failed (no error number)", "no error number"),
            // Somebody else's request.
            ("canceling statement due to user request (57014)", "SQLSTATE 57014"),
            ("no whole answer within 5s", "timed out"),
            ("no whole answer within 5s, nor to the request to cancel it within 2s", "timed out"),
        ] {
            let query = Query { error: Some(error.to_owned()), ..Query::default() };
            assert_eq!(query.end(), End::Failed(kind.to_owned()), "{error}");
        }
        assert_eq!(Query::default().end(), End::Answered);
    }
}
