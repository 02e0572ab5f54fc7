//! Whose settings a file has.

use std::fmt;
use std::str::FromStr;

/// A library, or the kernel, whose settings can be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `HikariCP`: its own properties, and Spring's properties and YAML.
    Hikari,
    /// Npgsql: connection strings.
    Npgsql,
    /// Microsoft.Data.SqlClient: connection strings.
    Adonet,
    /// pgxpool: URLs and keyword strings.
    Pgx,
    /// `SQLAlchemy`: URLs, and keywords as `engine_from_config` takes them.
    Sqlalchemy,
    /// node-postgres: JSON and URLs.
    NodePostgres,
    /// mysql2: JSON and URLs.
    Mysql2,
    /// Linux: sysctl's files.
    Sysctl,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Hikari,
        Self::Npgsql,
        Self::Adonet,
        Self::Pgx,
        Self::Sqlalchemy,
        Self::NodePostgres,
        Self::Mysql2,
        Self::Sysctl,
    ];

    /// As options write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hikari => "hikari",
            Self::Npgsql => "npgsql",
            Self::Adonet => "adonet",
            Self::Pgx => "pgx",
            Self::Sqlalchemy => "sqlalchemy",
            Self::NodePostgres => "node-postgres",
            Self::Mysql2 => "mysql2",
            Self::Sysctl => "sysctl",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = || Self::ALL.map(Self::name).join(", ");
        Self::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| format!("use one of {}", all()))
    }
}
