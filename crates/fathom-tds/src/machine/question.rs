//! What the text of a query asks for. This is no SQL: it knows one source of rows, a few small tables about the session, and what
//! libraries say by themselves when they connect.

use fathom_core::units::size_text;
use std::time::Duration;

/// Bytes that a row of the row source may have beside its number: `varchar` holds no more.
pub const LONGEST_ROW: u16 = 8_000;
/// Rows of one query.
pub const MOST_ROWS: u32 = 100_000_000;
/// Bytes of one query's rows. Who wants more asks again.
pub const MOST_BYTES: u64 = 16 << 30;
/// The longest time before the first row.
pub const LONGEST_THINK: Duration = Duration::from_mins(1);

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// `fathom_rows(rows, row_bytes, think)`.
    Rows(Source),
    /// `@@VERSION`.
    Version,
    /// `@@SPID`.
    Spid,
    /// `SELECT 1`, as pools ask to see that a connection lives.
    Number(i32),
    /// `sys.dm_exec_session_wait_stats`.
    Waits,
    /// `sys.dm_exec_connections`.
    Connection,
    /// `fathom_transfer`: what the kernel says of this connection.
    Transfer,
    /// What the session of this number does, as SQL Server's views of sessions and requests say it.
    State(u32),
    /// How long it has waited for the network, as those of sessions and their waits do.
    Waited(u32),
    /// A setting, which is taken and has no effect.
    Setting,
}

/// The row source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    /// How many rows.
    pub rows: u32,
    /// Letters of each.
    pub letters: u16,
    /// What passes before the first.
    pub think_ns: u64,
}

/// As `fathom sql` asks what the server does for another session; its number follows.
const STATE: &str = "select s.session_id, r.status, r.wait_type, \
                     case when s.last_request_end_time > dateadd(minute, -30, sysdatetime()) \
                     and s.last_request_end_time < dateadd(minute, 30, sysdatetime()) \
                     then datediff(microsecond, s.last_request_end_time, sysdatetime()) end as idle_us from sys.dm_exec_sessions as s left join sys.dm_exec_requests as r \
                     on r.session_id = s.session_id where s.session_id =";

/// As `fathom sql` asks for how long another session has waited for the network; its number follows.
const WAITED: &str = "select s.session_id, w.waiting_tasks_count, w.wait_time_ms from sys.dm_exec_sessions as s \
                      left join sys.dm_exec_session_wait_stats as w on w.session_id = s.session_id \
                      and w.wait_type = 'async_network_io' where s.session_id =";

/// Reads a query's text. The error says what the query should be. What is not known whole is refused: rows that were not asked
/// for, or a second statement that is not done, would be taken for an answer.
pub fn question(text: &str) -> Result<Question, String> {
    let lower = text.to_ascii_lowercase();
    let mut statements = lower.split(';').map(str::trim).filter(|one| !one.is_empty());
    let (first, second) = (statements.next().unwrap_or_default(), statements.next());
    if is_setting(first) && second.into_iter().chain(statements).all(is_setting) {
        return Ok(Question::Setting);
    }
    let spaced = first.replace('=', " = ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let known = match (second, words.as_slice()) {
        (None, ["select", "*", "from", from, ..]) => {
            let table = from.trim_start_matches("dbo.").trim_start_matches("sys.");
            if table.starts_with("fathom_rows") {
                let arguments = first.split_once("fathom_rows").map_or("", |(_, arguments)| arguments);
                return source(arguments).map(Question::Rows);
            }
            let whole = matches!(words.get(4..), Some([] | ["where", "session_id", "=", "@@spid"]));
            match table {
                "fathom_transfer" if whole => Some(Question::Transfer),
                "dm_exec_session_wait_stats" if whole => Some(Question::Waits),
                "dm_exec_connections" if whole => Some(Question::Connection),
                _ => None,
            }
        }
        (None, [asked @ .., number]) if STATE.split_whitespace().eq(asked.iter().copied()) => {
            number.parse().ok().map(Question::State)
        }
        (None, [asked @ .., number]) if WAITED.split_whitespace().eq(asked.iter().copied()) => {
            number.parse().ok().map(Question::Waited)
        }
        (None, ["select", "@@version"]) => Some(Question::Version),
        (None, ["select", "@@spid"]) => Some(Question::Spid),
        (None, ["select", number]) => number.parse().ok().map(Question::Number),
        _ => None,
    };
    known.ok_or_else(|| {
        format!(
            "this is fathom echo --tds, a server for measuring, and no database; it knows SELECT * FROM \
             fathom_rows(1000, 200) and what else docs/tds.md names, one at a time, and not: {}",
            text.chars().take(60).collect::<String>()
        )
    })
}

/// A statement that is taken, and has no effect.
fn is_setting(statement: &str) -> bool {
    let word = statement.split_whitespace().next();
    matches!(word, None | Some("set" | "use" | "if" | "begin" | "commit" | "rollback" | "save" | "declare"))
        && !statement.contains("select")
}

/// What stands between the parentheses behind the name.
fn source(text: &str) -> Result<Source, String> {
    const USAGE: &str = "write fathom_rows(rows, row_bytes), or fathom_rows(rows, row_bytes, '10ms') for a server that thinks first";
    // Nothing may follow: a condition or an order would not be kept.
    let inner = text.trim().strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    let mut arguments =
        inner.ok_or(USAGE)?.split(',').map(|a| a.trim().trim_start_matches('n').trim_matches('\''));
    let (rows, letters) = (arguments.next().unwrap_or_default(), arguments.next().ok_or(USAGE)?);
    let think = arguments.next();
    if arguments.next().is_some() {
        return Err(USAGE.into());
    }
    let rows: u32 = number(rows, "rows", MOST_ROWS)?;
    let letters = number(letters, "row_bytes", LONGEST_ROW.into())? as u16;
    let bytes = u64::from(rows) * u64::from(letters);
    if bytes > MOST_BYTES {
        return Err(format!(
            "{} of rows; a query may ask for {}: ask for less, more often",
            size_text(bytes),
            size_text(MOST_BYTES)
        ));
    }
    let think = match think {
        None => Duration::ZERO,
        Some(text) => fathom_core::units::duration(text)
            .map_err(|_| format!("think: '{text}' is no duration; write it as in '10ms'"))?,
    };
    if think > LONGEST_THINK {
        return Err(format!("think: at most {} s", LONGEST_THINK.as_secs()));
    }
    Ok(Source { rows, letters, think_ns: think.as_nanos() as u64 })
}

fn number(text: &str, name: &str, most: u32) -> Result<u32, String> {
    text.parse()
        .ok()
        .filter(|&n| n <= most)
        .ok_or_else(|| format!("{name}: '{text}' is no whole number up to {most}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_requested_by_table_function() {
        let source = |rows, letters, think_ns| Ok(Question::Rows(Source { rows, letters, think_ns }));
        assert_eq!(question("SELECT * FROM fathom_rows(1000, 200)"), source(1_000, 200, 0));
        assert_eq!(question("select * from dbo.Fathom_Rows( 5,0 , '1.5ms' );"), source(5, 0, 1_500_000));
        assert_eq!(question("select * from fathom_rows(5, 8000, N'1s')"), source(5, 8_000, 1_000_000_000));
    }

    #[test]
    fn what_cannot_be_served_says_what_can() {
        for (text, part) in [
            ("select * from fathom_rows", "write fathom_rows("),
            ("select * from fathom_rows(1)", "write fathom_rows("),
            ("select * from fathom_rows(1,2,3,4)", "write fathom_rows("),
            ("select * from fathom_rows(-1,2)", "rows: '-1'"),
            ("select * from fathom_rows(1,8001)", "row_bytes: '8001' is no whole number up to 8000"),
            ("select * from fathom_rows(100000000,8000)", "a query may ask for"),
            ("select * from fathom_rows(1,2,'soon')", "think: 'soon'"),
            ("select * from fathom_rows(1,2,'2m')", "think: at most 60 s"),
            ("select name from customers", "no database"),
            ("select count(*) from fathom_rows(3,2)", "no database"),
            ("select * from fathom_rows(3,2) where n > 1", "write fathom_rows("),
            ("select * from fathom_rows(3,2) order by n desc", "write fathom_rows("),
            ("select client_ns from fathom_transfer", "no database"),
            ("select net_packet_size from sys.dm_exec_connections where session_id=@@spid", "no database"),
            ("select @@version, @@spid", "no database"),
            ("set nocount on; select 1", "one at a time"),
            ("set nocount on\nselect 1", "no database"),
            ("use x; select 1", "one at a time"),
            ("select * from fathom_rows(3,2); drop table t", "one at a time"),
        ] {
            let said = question(text).expect_err(text);
            assert!(said.contains(part), "{text}: {said}");
        }
    }

    #[test]
    fn what_libraries_say_by_themselves_is_taken() {
        for text in [
            "SET ARITHABORT ON",
            "set transaction isolation level read committed",
            "USE [master]",
            "SET ARITHABORT ON;SET CONCAT_NULL_YIELDS_NULL ON;SET ANSI_NULLS ON;",
            "  ",
            "IF @@TRANCOUNT > 0 ROLLBACK TRAN",
        ] {
            assert_eq!(question(text), Ok(Question::Setting), "{text}");
        }
        assert_eq!(question("SELECT 1;"), Ok(Question::Number(1)));
        let state = format!("{} 7", STATE.replace("select s", "SELECT s"));
        assert_eq!(question(&state), Ok(Question::State(7)));
        assert!(question(&format!("{state} or 1=1")).is_err());
        let waited = format!("{} 7", WAITED.replace("async_network_io", "ASYNC_NETWORK_IO"));
        assert_eq!(question(&waited), Ok(Question::Waited(7)));
        assert!(question(&waited.replace("ASYNC_NETWORK_IO", "WAITFOR")).is_err());
        assert_eq!(question("SELECT @@VERSION"), Ok(Question::Version));
        for condition in ["", " WHERE session_id = @@SPID", " where session_id=@@spid;"] {
            let waits = format!("SELECT * FROM sys.dm_exec_session_wait_stats{condition}");
            assert_eq!(question(&waits), Ok(Question::Waits), "{waits}");
        }
    }
}
