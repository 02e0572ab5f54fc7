//! What the server says of an answer's end: that a statement is over, and how many rows it sent. An answer that ends without the one, or has
//! other rows than the other says, is not what the server sent.

use crate::violation::Violation;
use fathom_core::text::count;
use std::io;

/// An answer under way, of one statement or, with `--simple`, of several one after the other.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    /// Rows of the statement since the last Execute, and before it.
    rows: u64,
    rows_before: u64,
    /// Its rows were described: whatever it counts, it counts them.
    is_described: bool,
    /// The server has said how a statement ended, or that there is none.
    is_told: bool,
}

impl Ends {
    pub(crate) fn rows(&mut self, rows: u64) {
        self.rows += rows;
    }

    pub(crate) fn described(&mut self) {
        self.is_described = true;
    }

    /// The portal has more, which another Execute asks for: it gave as many rows as it was asked for.
    pub(crate) fn suspended(&mut self, asked: Option<u32>) -> io::Result<()> {
        let rows = std::mem::take(&mut self.rows);
        self.rows_before += rows;
        match asked.filter(|&asked| u64::from(asked) != rows) {
            None => Ok(()),
            Some(asked) => {
                let why = format!(
                    "{} came of a piece of {asked} that is whole and not the last (PortalSuspended): some were lost or doubled between",
                    count(rows, "row")
                );
                Err(Violation::error(&why, b"s\0\0\0\x04"))
            }
        }
    }

    /// The statement failed, or there is none (`ErrorResponse`, `EmptyQueryResponse`).
    pub(crate) fn ended(&mut self) {
        *self = Self { is_told: true, ..Self::default() };
    }

    /// `CommandComplete` with this tag.
    pub(crate) fn completed(&mut self, tag: Option<&str>) -> io::Result<()> {
        let Self { rows, rows_before, is_described, .. } = std::mem::take(self);
        self.is_told = true;
        // Other tags count what was changed, moved or copied. `CREATE TABLE … AS` has this one too, and gives no rows.
        let sent = tag.and_then(|tag| tag.strip_prefix("SELECT ")?.parse::<u64>().ok());
        let Some(sent) = sent.filter(|_| is_described || rows + rows_before > 0) else { return Ok(()) };
        // PostgreSQL counts those of the last Execute, and others may count all of the portal. ClickHouse counts none: it says 0 of whatever it
        // sends.
        if sent == rows || sent == rows + rows_before || (sent == 0 && rows > 0) {
            return Ok(());
        }
        let why = if rows < sent {
            "some were lost between"
        } else {
            "some were doubled between, or are of another answer"
        };
        let why = format!(
            "{} came, and by its own count the server sent {sent} (its tag is \"SELECT {sent}\"): {why}",
            count(rows, "row")
        );
        Err(Violation::error(&why, &[]))
    }

    /// `ReadyForQuery`.
    pub(crate) fn ready(&self) -> io::Result<()> {
        if self.is_told { Ok(()) } else { Err(untold()) }
    }
}

/// `ReadyForQuery` where the server has not said what became of what was asked.
pub(crate) fn untold() -> io::Error {
    let why = "the server is ready for another query (ReadyForQuery) before it has said what became of this one (CommandComplete, or an error)";
    Violation::error(&why, b"Z\0\0\0\x05")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One answer: rows (`D`) and their description (`T`), portals that are suspended (`s`), and the tag.
    fn completed(answer: &str, tag: &str) -> Result<(), String> {
        let mut ends = Ends::default();
        for message in answer.chars() {
            match message {
                'D' => ends.rows(1),
                'T' => ends.described(),
                _ => ends.suspended(None).unwrap(),
            }
        }
        ends.completed(Some(tag)).map_err(|e| e.to_string())
    }

    /// The same within a piece that a further Execute goes on from.
    #[test]
    fn suspended_fetch_has_exactly_requested_rows() {
        for (rows, says) in [(3, ""), (2, "2 rows came of a piece of 3"), (4, "4 rows came of a piece of 3")]
        {
            let mut ends = Ends::default();
            ends.rows(rows);
            let told = ends.suspended(Some(3)).map_or_else(|e| e.to_string(), |()| String::new());
            assert!(told.contains(says) && told.is_empty() == says.is_empty(), "{rows}: {told}");
        }
    }

    /// A proxy that loses or doubles rows: the queries were answered (a stranger).
    #[test]
    fn rows_are_held_against_what_the_server_counts() {
        for (answer, tag, says) in [
            (
                "DDD",
                "SELECT 4",
                "3 rows came, and by its own count the server sent 4 (its tag is \"SELECT 4\"): some were lost",
            ),
            (
                "DDD",
                "SELECT 2",
                "3 rows came, and by its own count the server sent 2 (its tag is \"SELECT 2\"): some were doubled",
            ),
            ("D", "SELECT 2", "1 row came, and by its own"),
            ("TDD", "SELECT 1", "2 rows came"),
            // All of them: where they were described it is known that there were some.
            ("T", "SELECT 3", "0 rows came"),
            // Of the last Execute, and of all of them.
            ("DDsDDsD", "SELECT 2", "1 row came"),
            ("DDsDD", "SELECT 3", "2 rows came"),
            ("DDs", "SELECT 1", "0 rows came"),
        ] {
            let told = completed(answer, tag).expect_err(answer);
            assert!(told.contains(says), "{answer} {tag}: {told}");
        }
    }

    #[test]
    fn ambiguous_row_counts_are_accepted() {
        for (answer, tag) in [
            ("", "SELECT 0"),
            ("DDD", "SELECT 3"),
            ("TDDD", "SELECT 3"),
            ("T", "SELECT 0"),
            // CREATE TABLE … AS, SELECT … INTO.
            ("", "SELECT 5"),
            // A portal counts what its last Execute gave; some servers, what all of them did.
            ("DDsDDs", "SELECT 0"),
            ("DDsDDsD", "SELECT 1"),
            ("DDsDDsD", "SELECT 5"),
            // A server that counts nothing.
            ("DDD", "SELECT 0"),
            // Servers before PostgreSQL 9.0, and Redshift.
            ("DDD", "SELECT"),
            // With rules an INSERT counts others than it returns.
            ("DD", "INSERT 0 3"),
            ("DD", "FETCH 3"),
            ("", "UPDATE 7"),
            ("D", "SHOW"),
            ("DD", "EXPLAIN"),
            ("", "COPY 9"),
            ("D", "SELECT -1"),
        ] {
            assert_eq!(completed(answer, tag), Ok(()), "{answer} {tag}");
        }
        let mut ends = Ends::default();
        ends.rows(3);
        ends.completed(None).unwrap();
    }

    /// Of several statements each is counted by itself.
    #[test]
    fn a_statement_has_rows_of_its_own() {
        let mut ends = Ends::default();
        ends.described();
        ends.rows(2);
        ends.completed(Some("SELECT 2")).unwrap();
        ends.completed(Some("SELECT 7")).expect("CREATE TABLE … AS gives none");
        ends.rows(1);
        ends.ended();
        ends.completed(Some("SELECT 0")).unwrap();
        assert!(ends.ready().is_ok());
        assert!(Ends::default().ready().is_err());
    }
}
