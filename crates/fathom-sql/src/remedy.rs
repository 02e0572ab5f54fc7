//! What to do about what a server refused, where nothing more is known of it than of what class it is: whether the query is to be
//! mended, or something at the server.

pub(crate) const MEND: &str = "mend the query";
pub(crate) const AGAIN: &str = "another session had to go on: ask again";
const RESOURCES: &str =
    "the server has too little memory, disk or room for it: see its log, or ask for less at once";
const SERVERS: &str = "that is the server's own trouble: see its log";

/// Of a SQLSTATE, by its first two characters (<https://www.postgresql.org/docs/17/errcodes-appendix.html>, ISO/IEC 9075-2 table 38);
/// `None`: that does not tell.
pub(crate) fn of_state(state: &str) -> Option<&'static str> {
    Some(match state.get(..2)? {
        // What it asks with, for or about: data, cardinality, constraints, cursors, transactions, functions, names, syntax.
        "02" | "03" | "07" | "09" | "0B" | "0F" | "0L" | "0P" | "0Z" | "10" | "20" | "21" | "22" | "23"
        | "24" | "25" | "26" | "27" | "2B" | "2D" | "2F" | "33" | "34" | "35" | "38" | "39" | "3B" | "3C"
        | "3D" | "3F" | "42" | "44" | "45" | "P0" => MEND,
        "0A" => "this server cannot do that: ask for it in another way",
        "28" => "see what the user may do there",
        "40" => AGAIN,
        "53" => RESOURCES,
        "54" => "it is more than the server takes at once: ask for less, or raise the limit that it names",
        "55" => "what it is about is in use, or not ready for it: see what holds it, and ask again",
        "57" => "somebody at the server ended it: see its log",
        // A file or a library that the query names may be what is missing.
        "58" => {
            "see that the files that the query is about are there and the server may read them; else see its log"
        }
        "08" | "F0" | "XX" => SERVERS,
        "HV" => "see the server elsewhere that it asks",
        _ => return None,
    })
}

/// Of a number of `MySQL` or `MariaDB`, whose SQLSTATE is mostly `HY000`, which says nothing
/// (<https://dev.mysql.com/doc/mysql-errors/8.4/en/server-error-reference.html>).
pub(crate) fn of_mysql(number: u16, state: &str) -> &'static str {
    match number {
        // The disk, memory, open files, threads; a table that is full, temporary ones too.
        1021 | 1037 | 1038 | 1041 | 1114 | 1135 | 1206 => RESOURCES,
        // Files of its own and what stores them; what is broken; its own bugs.
        1003..=1006
        | 1009
        | 1010
        | 1012..=1016
        | 1018
        | 1019
        | 1023..=1030
        | 1033..=1036
        | 1194
        | 1195
        | 1296
        | 1297
        | 1815
        | 1877 => SERVERS,
        _ => of_state(state).unwrap_or("mend the query, or where it is right see the server's log"),
    }
}

/// Of SQL Server, by how grave it is (<https://learn.microsoft.com/sql/relational-databases/errors-events/database-engine-error-severities>);
/// 0: it does not tell.
pub(crate) fn of_mssql(severity: u8) -> Option<&'static str> {
    Some(match severity {
        // "Indicates transaction deadlock errors."
        13 => AGAIN,
        // "Indicates security-related errors, such as permission denied."
        14 => "see what the user may do there",
        // "Errors that can be corrected by the user."
        11..=16 => MEND,
        // "the statement caused SQL Server to run out of resources"
        17 => RESOURCES,
        18.. => SERVERS,
        0..=10 => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// They were sent to the server's log, which says of them what the line had said already (a stranger).
    #[test]
    fn error_class_decides_the_advice() {
        for state in ["22012", "34000", "25P01", "21000", "23505", "42P01", "P0001", "3F000"] {
            assert_eq!(of_state(state), Some(MEND), "{state}");
        }
        for (state, says) in [
            ("08S01", "log"),
            ("53200", "memory"),
            ("54001", "limit"),
            ("57P01", "log"),
            ("58P01", "files"),
            ("XX000", "log"),
        ] {
            assert!(of_state(state).is_some_and(|to_do| to_do.contains(says) && to_do != MEND), "{state}");
        }
        // Nobody's, and what is none.
        for state in ["HY000", "72000", "", "2", "é"] {
            assert_eq!(of_state(state), None, "{state}");
        }
        for (number, state) in [(1242, "21000"), (1365, "22012"), (1062, "23000")] {
            assert_eq!(of_mysql(number, state), MEND, "{number}");
        }
        assert!(of_mysql(1221, "HY000").starts_with(MEND));
        assert_eq!((of_mysql(1021, "HY000"), of_mysql(1030, "HY000")), (RESOURCES, SERVERS));
        assert_eq!((of_mssql(16), of_mssql(17), of_mssql(21)), (Some(MEND), Some(RESOURCES), Some(SERVERS)));
        assert_eq!(of_mssql(0), None);
    }
}
