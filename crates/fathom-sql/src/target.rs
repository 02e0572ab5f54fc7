//! `postgres://user:password@host:port/database?sslmode=…`, as libpq reads it
//! (<https://www.postgresql.org/docs/15/libpq-connect.html#LIBPQ-CONNSTRING>); `mssql://` the same, with the variables of `sqlcmd`, and `mysql://`,
//! with those of `mysql`.

#[cfg(test)]
mod tests;

use crate::environment;
use crate::ssl_mode::SslMode;
use fathom_core::query::AGAIN_NS;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

/// What stands in its place may be a piece of a password.
const NO_PORT: &str = "what follows the host and a colon is no port; write one from 1 to 65535, and in a password %2F for / and %3F for ?";

/// A password: in no message, log or recording.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(pub(crate) String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Whose certificates are believed, where that is said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Roots {
    /// `sslrootcert=system`: those that this host trusts, and no file.
    System,
    File(PathBuf),
}

impl From<OsString> for Roots {
    fn from(name: OsString) -> Self {
        if name == "system" { Self::System } else { Self::File(name.into()) }
    }
}

/// What a database cannot be named by.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// The URL.
    #[error("the URL of the database: {0}")]
    Url(String),
    /// A variable of the environment that says what the URL does not.
    #[error("the environment variable {0}")]
    Variable(String),
}

impl From<String> for Unreadable {
    fn from(why: String) -> Self {
        Self::Url(why)
    }
}

impl From<&str> for Unreadable {
    fn from(why: &str) -> Self {
        Self::Url(why.to_owned())
    }
}

/// A database, as a URL names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// `PostgreSQL`, or what speaks its protocol.
    Postgres(Server),
    /// SQL Server, or what speaks its protocol.
    Mssql(Server),
    /// `MySQL` or `MariaDB`, or what speaks their protocol.
    Mysql(Server),
}

/// What a scheme of URLs has of its own.
struct Scheme {
    target: fn(Server) -> Target,
    port: u16,
    /// Variables.
    user: Option<&'static str>,
    database: Option<&'static str>,
    password: &'static str,
    /// Where nothing names a database it is the one of the user's name.
    has_users_database: bool,
    /// `sslmode` where nobody says any.
    ssl: SslMode,
}

const POSTGRES: Scheme = Scheme {
    target: Target::Postgres,
    port: 5432,
    user: Some("PGUSER"),
    database: Some("PGDATABASE"),
    password: "PGPASSWORD or ~/.pgpass",
    has_users_database: true,
    ssl: SslMode::Prefer,
};
/// <https://learn.microsoft.com/sql/tools/sqlcmd/sqlcmd-use-scripting-variables>.
const MSSQL: Scheme = Scheme {
    target: Target::Mssql,
    port: 1433,
    user: Some("SQLCMDUSER"),
    database: Some("SQLCMDDBNAME"),
    password: "SQLCMDPASSWORD",
    has_users_database: false,
    // SCRAM proves that one knows the password; TDS sends it, and hides it from nobody. So who cannot encrypt is not told it unasked
    // (as Microsoft's clients have it since ODBC 18).
    ssl: SslMode::Require,
};
/// <https://dev.mysql.com/doc/refman/8.4/en/environment-variables.html>; the user's name is that of the system.
const MYSQL: Scheme = Scheme {
    target: Target::Mysql,
    port: 3306,
    user: None,
    database: None,
    password: "MYSQL_PWD",
    has_users_database: false,
    // As its own clients (PREFERRED): without TLS no password is sent that somebody could read.
    ssl: SslMode::Prefer,
};

/// A server, and as whom to log in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) user: String,
    pub(crate) database: String,
    pub(crate) password: Option<Secret>,
    pub(crate) ssl: SslMode,
    pub(crate) roots: Option<Roots>,
    /// SQL Server's: what follows the login is not encrypted.
    pub(crate) login_only: bool,
}

impl Server {
    /// `host:port`, an IPv6 address in brackets.
    pub fn address(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// Whether the URL itself has the password: `ps` shows it to everybody on this host.
    pub fn shows_password(&self) -> bool {
        self.password.is_some()
    }
}

impl Target {
    /// The server that it names.
    pub fn server(&self) -> &Server {
        match self {
            Self::Postgres(server) | Self::Mssql(server) | Self::Mysql(server) => server,
        }
    }

    /// The server's kernel sends what was lost again after this at the least: Linux's `TCP_RTO_MIN`, and Windows' `MinRto` of 300 ms
    /// (`Get-NetTCPSetting` of its Internet template, which is the longer).
    pub(crate) fn sends_again_after_ns(&self) -> u64 {
        match self {
            Self::Postgres(_) | Self::Mysql(_) => AGAIN_NS,
            Self::Mssql(_) => 300_000_000,
        }
    }

    /// Where the password is given so that `ps` does not show it.
    pub fn password_by(&self) -> &'static str {
        match self {
            Self::Postgres(_) => POSTGRES.password,
            Self::Mssql(_) => MSSQL.password,
            Self::Mysql(_) => MYSQL.password,
        }
    }

    /// Reads a URL; `env` gives environment variables.
    pub fn parse(url: &str, env: impl Fn(&str) -> Option<OsString>) -> Result<Self, Unreadable> {
        let (scheme, rest) =
            url.split_once("://").ok_or("write a URL, as in postgres://user@host:5432/database")?;
        let own = match scheme {
            "postgres" | "postgresql" => &POSTGRES,
            "mssql" | "sqlserver" => &MSSQL,
            "mysql" | "mariadb" => &MYSQL,
            _ => {
                return Err(format!(
                    "{scheme}:// is no database that is measured; write postgres://user@host:5432/database, mysql:// or mssql://"
                )
                .into());
            }
        };
        let is_postgres = own.port == POSTGRES.port;
        let (rest, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, place) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = login.split_once(':').map_or((login, None), |(user, word)| (user, Some(word)));
        // As JDBC writes settings: a password may be among them, which no name is to be told with.
        if [user, database].iter().any(|name| name.contains(';')) {
            return Err(format!("write %3B for a ; in a name, as in {scheme}://user@host/database").into());
        }
        let (host, port) = host_and_port(place, own.port)?;
        let some = |text: String| Some(text).filter(|text| !text.is_empty());
        // The first that is there; what follows it is not looked at.
        let first = |url: Option<String>, names: &[Option<&str>]| {
            let text = |name| environment::text(&env, name).map_err(Unreadable::Variable);
            let mut variables = names.iter().flatten().map(|name| text(name));
            url.map_or_else(|| variables.find_map(Result::transpose).transpose(), |text| Ok(Some(text)))
        };
        let user = first(some(decoded(user)?), &[own.user, Some("USER")])?
            .ok_or_else(|| format!("name the user, as in {scheme}://user@host/database"))?;
        let users = || if own.has_users_database { user.clone() } else { String::new() };
        let database = first(some(decoded(database)?), &[own.database])?.unwrap_or_else(users);
        let password = password.map(decoded).transpose()?.map(Secret);
        let mut ssl = None;
        let mut roots = env("PGSSLROOTCERT").filter(|_| is_postgres).map(Roots::from);
        let mut login_only = false;
        for parameter in parameters.split('&').filter(|p| !p.is_empty()) {
            match parameter.split_once('=') {
                Some(("sslmode", "login")) if own.port == MSSQL.port => {
                    (ssl, login_only) = (Some(SslMode::Require), true);
                }
                // As MySQL's own clients name it.
                Some(("ssl-mode", mode)) if own.port == MYSQL.port => ssl = Some(SslMode::of_mysql(mode)?),
                Some(("sslmode", mode)) => {
                    (ssl, login_only) = (Some(SslMode::of_libpq("sslmode", mode)?), false);
                }
                Some(("sslrootcert", file)) => roots = Some(OsString::from(decoded(file)?).into()),
                Some(("password", _)) => {
                    return Err(
                        format!("give the password by {}, and not as a parameter", own.password).into()
                    );
                }
                // What is taken for a parameter may be the rest of a password.
                _ if parameters.contains('@') => {
                    return Err("write %3F for a ? in a password".into());
                }
                _ => {
                    let name = parameter.split('=').next().unwrap_or(parameter);
                    return Err(
                        format!("the parameter {name} is not known; sslmode and sslrootcert are").into()
                    );
                }
            }
        }
        if [&user, &database].iter().any(|text| text.contains('\0')) {
            return Err("a name with a null byte is none".into());
        }
        if ssl.is_none() {
            let variable = "PGSSLMODE";
            let mode = first(None, &[Some(variable).filter(|_| is_postgres)])?;
            let mode = mode.map(|mode| SslMode::of_libpq(variable, &mode));
            ssl = mode.transpose().map_err(Unreadable::Variable)?;
        }
        // A host that only some authority knows is anybody's (libpq: "weak sslmode may not be used with sslrootcert=system").
        let ssl = match (ssl, &roots) {
            (None | Some(SslMode::VerifyFull), Some(Roots::System)) => SslMode::VerifyFull,
            (Some(SslMode::Disable), _) => SslMode::Disable,
            (Some(_), Some(Roots::System)) => {
                return Err("sslrootcert=system needs sslmode=verify-full".into());
            }
            (ssl, _) => ssl.unwrap_or(own.ssl),
        };
        let server = Server { host, port, user, database, password, ssl, roots, login_only };
        Ok((own.target)(server))
    }
}

fn host_and_port(place: &str, usual: u16) -> Result<(String, u16), String> {
    let (host, port) = match place.strip_prefix('[') {
        Some(rest) => {
            let (host, after) =
                rest.split_once(']').ok_or("close the brackets of the address, as in [::1]:5432")?;
            (host.to_owned(), after.strip_prefix(':'))
        }
        None => match place.split_once(':') {
            Some((host, port)) => (decoded(host)?, Some(port)),
            None => (decoded(place)?, None),
        },
    };
    // Settings as JDBC and ADO.NET write them, a password maybe: not repeated.
    if host.contains([';', '=']) {
        return Err("a ; or = is in no host; write mssql://user@host/database".to_owned());
    }
    if host.contains(',') {
        return Err("name one host: several would be several paths".to_owned());
    }
    if host.is_empty() || host.starts_with('/') {
        return Err("name a host: a Unix socket has no network to measure".to_owned());
    }
    let port = match port {
        None | Some("") => usual,
        // 0 is the one that nobody has.
        Some(port) => port.parse().ok().filter(|port: &u16| *port > 0).ok_or(NO_PORT)?,
    };
    Ok((host, port))
}

/// Percent-encoding (RFC 3986, section 2.1).
fn decoded(text: &str) -> Result<String, String> {
    let bad =
        || "a % in a URL stands before two hexadecimal digits; write %25 for the sign itself".to_owned();
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|b| char::from(b).to_digit(16)).ok_or_else(bad);
        bytes.push((digit()? * 16 + digit()?) as u8);
    }
    String::from_utf8(bytes).map_err(|_| bad())
}
