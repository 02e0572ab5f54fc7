//! What of a configuration a protocol cannot do.

use crate::statement::{Dialect, is_empty};
use crate::{Config, Source, Target};

/// "field size limit: 1 GB" (<https://www.postgresql.org/docs/15/limits.html>), of which the header takes some.
const VALUE_BYTES: u64 = (1 << 30) - 4;
/// "2^31-1 bytes" (<https://learn.microsoft.com/sql/t-sql/data-types/char-and-varchar-transact-sql>).
const LARGE_BYTES: u64 = 1 << 31;
/// Above the greatest `max_allowed_packet`: "The largest possible packet that can be transmitted … is 1GB"
/// (<https://dev.mysql.com/doc/refman/8.4/en/packet-too-large.html>).
const PACKET_BYTES: u64 = (1 << 30) + 1;

/// Why it cannot be done, and what to do instead.
pub(crate) fn unfit(config: &Config) -> Option<&'static str> {
    match (&config.target, &config.source) {
        (target, Source::Text { sql, .. }) if is_empty(sql, Dialect::of(target)) => Some(
            "--query: there is nothing but comments in it, and so nothing to answer; write SQL, as in --query 'SELECT 1'",
        ),
        (Target::Postgres(_), Source::Rows { row_bytes: VALUE_BYTES.., .. }) => {
            Some("--row-bytes: no value of PostgreSQL is 1 GiB or more; ask for less")
        }
        (Target::Postgres(_), _) if config.packet_size.is_some() => {
            Some("--packet-size: PostgreSQL's protocol has no packets; it is for mssql://")
        }
        (Target::Mysql(_), Source::Rows { row_bytes: PACKET_BYTES.., .. }) => {
            Some("--row-bytes: no value of MySQL is longer than 1 GiB; ask for less")
        }
        (Target::Mysql(_), _) if config.packet_size.is_some() => {
            Some("--packet-size: MySQL's packets are as long as what they hold; it is for mssql://")
        }
        (Target::Mssql(_), Source::Rows { row_bytes: LARGE_BYTES.., .. }) => {
            Some("--row-bytes: no value of SQL Server is 2 GiB or more; ask for less")
        }
        (Target::Mssql(_), _) if config.fetch_size.is_some() => {
            Some("--fetch-size: mssql:// fetches all rows at once; leave it out")
        }
        _ => None,
    }
}
