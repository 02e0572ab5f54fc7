//! Who ended a session, by what the server says of it or by its silence, and where to ask.

use crate::Target;
use crate::error::Refusal;

const LOG: &str = "see the server's log for why it ended the session";
const KILLED: &str = "somebody ended the session by KILL: the server's administrator, or a program of theirs";

/// The server said this, and ended it.
pub(crate) fn by(refusal: &Refusal, target: &Target) -> &'static str {
    match target {
        Target::Postgres(_) => by_postgres(refusal),
        Target::Mysql(_) => by_mysql(refusal),
        Target::Mssql(_) => match refusal.code.as_str() {
            // "Cannot continue the execution because the session is in the kill state."
            "error 596" => KILLED,
            // "SHUTDOWN is in progress."
            "error 6005" => "the server shuts down: ask again when it has begun",
            _ => LOG,
        },
    }
}

/// The same of `MySQL` and `MariaDB`.
pub(crate) fn by_mysql(refusal: &Refusal) -> &'static str {
    match refusal.number {
        1927 => KILLED,
        // `THD::KILL_CONNECTION` of MySQL is ER_SERVER_SHUTDOWN.
        1053 => {
            "the server shuts down, or its administrator ended the session by KILL: MySQL says the same of both"
        }
        4031 => "it lets no session idle for longer (wait_timeout)",
        number => of_a_proxy(number, &refusal.message).unwrap_or(LOG),
    }
}

/// The same of `PostgreSQL`.
pub(crate) fn by_postgres(refusal: &Refusal) -> &'static str {
    match refusal.code.as_str() {
        "57P01" => {
            "the server's administrator ended the session (pg_terminate_backend), or shut the server down"
        }
        "57P02" => "another of the server's processes crashed, and it ended all sessions: see its log",
        "57P03" => "the server shuts down or begins: ask again when it has begun",
        "57P04" => "somebody dropped the database",
        "57P05" => "it lets no session idle for longer (idle_session_timeout)",
        "25P03" | "25P04" => {
            "a time limit of the server's is over (idle_in_transaction_session_timeout, transaction_timeout)"
        }
        _ => of_a_pooler(refusal).unwrap_or(LOG),
    }
}

/// It was closed, and nobody said why.
pub(crate) fn without_a_word(target: &Target) -> &'static str {
    match target {
        Target::Postgres(_) => {
            "PostgreSQL closes a session without a message when somebody ends it while it waits to send (pg_terminate_backend), and when it crashes: \
             its log says which; if the log has neither, a pooler, proxy, balancer or firewall closed it"
        }
        Target::Mysql(_) => {
            "MySQL closes a session without a message when somebody ends it (KILL), when it is idle for too long, when it shuts down and when it \
             crashes: its log may say which; if it does not, a proxy, balancer or firewall may have closed it"
        }
        Target::Mssql(_) => {
            "SQL Server closes a session without a message when somebody ends it (KILL), when it shuts down and when it crashes: its log says \
             which; if the log has none of that, a proxy, balancer or firewall closed it"
        }
    }
}

/// `PostgreSQL` names a place in its source with each error of its own; who speaks in its place does not.
pub(crate) fn of_a_pooler(refusal: &Refusal) -> Option<&'static str> {
    (refusal.code.starts_with("08") && refusal.routine.is_empty()).then_some(
        "a pooler or proxy between says so (PostgreSQL itself names a place in its source with each error): see that one's log",
    )
}

/// Numbers at which neither `MySQL` nor `MariaDB` has an error. `ProxySQL` has its own there, which name the hostgroup whose servers it could
/// not reach in time, or itself; `TiDB` has those of its storage (9001: "PD server timeout").
pub(crate) fn of_a_proxy(number: u16, message: &str) -> Option<&'static str> {
    let message = message.to_ascii_lowercase();
    let is_proxy = message.contains("hostgroup") || message.contains("proxysql");
    matches!(number, 9_001..=9_999).then_some(if is_proxy {
        "ProxySQL says so, which stands between: see its log, and whether it reaches its servers"
    } else {
        "ProxySQL or TiDB says so: see its log"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str) -> Target {
        Target::parse(&url.replace("://", "://me@"), |_| None).unwrap()
    }

    #[test]
    fn session_end_names_its_cause() {
        let says = |url: &str, code: &str, number, routine: &str| {
            let (code, routine) = (code.to_owned(), routine.to_owned());
            by(&Refusal { code, number, routine, ..Refusal::default() }, &target(url))
        };
        for (url, code, number, routine, expected) in [
            ("postgres://h", "57P01", 0, "ProcessInterrupts", "pg_terminate_backend"),
            ("postgres://h", "57P02", 0, "quickdie", "crashed"),
            ("postgres://h", "57P04", 0, "dropdb", "dropped"),
            ("postgres://h", "08P01", 0, "", "a pooler or proxy between says so"),
            ("postgres://h", "08P01", 0, "SocketBackend", "see the server's log"),
            ("postgres://h", "XX000", 0, "", "see the server's log"),
            ("mysql://h", "70100", 1_927, "", "by KILL"),
            ("mysql://h", "08S01", 1_053, "", "by KILL"),
            ("mysql://h", "HY000", 9_001, "", "ProxySQL or TiDB"),
            ("mysql://h", "08S01", 1_158, "", "see the server's log"),
            ("mssql://h", "error 596", 0, "", "by KILL"),
        ] {
            let told = says(url, code, number, routine);
            assert!(told.contains(expected), "{url} {code} {number}: {told}");
        }
        for url in ["postgres://h", "mysql://h", "mssql://h"] {
            assert!(without_a_word(&target(url)).contains("closes a session without a message"), "{url}");
        }
    }

    /// `TiDB`, which speaks the same protocol, was said to be `ProxySQL`.
    #[test]
    fn proxysql_and_tidb_differ_by_message() {
        for (message, says) in [
            (
                "error 9001: Max connect timeout reached while reaching hostgroup 0 after 10000ms",
                "ProxySQL says",
            ),
            ("error 9006: ProxySQL Error: connection is locked to hostgroup 1", "ProxySQL says"),
            ("error 9001: PD server timeout", "ProxySQL or TiDB says"),
            ("error 9007: Write conflict, txnStartTS=1", "ProxySQL or TiDB says"),
        ] {
            let number = message[6..10].parse().unwrap();
            let told = of_a_proxy(number, message).unwrap();
            assert!(told.starts_with(says), "{message}: {told}");
        }
        assert_eq!(of_a_proxy(1_158, "Got an error reading communication packets"), None);
    }
}
