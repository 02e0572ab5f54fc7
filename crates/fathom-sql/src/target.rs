//! `postgres://user:password@host:port/database?sslmode=…`, as libpq reads it
//! (<https://www.postgresql.org/docs/15/libpq-connect.html#LIBPQ-CONNSTRING>).

use crate::ssl_mode::SslMode;
use std::fmt;
use std::path::PathBuf;

const PORT: u16 = 5432;
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

impl From<String> for Roots {
    fn from(text: String) -> Self {
        if text == "system" { Self::System } else { Self::File(text.into()) }
    }
}

/// A database, as a URL names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// `PostgreSQL`, or what speaks its protocol.
    Postgres(Server),
}

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
    /// Reads a URL; `env` gives environment variables.
    pub fn parse(url: &str, env: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let (scheme, rest) =
            url.split_once("://").ok_or("write a URL, as in postgres://user@host:5432/database")?;
        match scheme {
            "postgres" | "postgresql" => {}
            "mysql" | "mariadb" | "mssql" | "sqlserver" => {
                return Err(format!("{scheme}:// is not measured yet; only postgres:// is"));
            }
            _ => {
                return Err(format!(
                    "{scheme}:// is no database that is measured; write postgres://user@host:5432/database"
                ));
            }
        }
        let (rest, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, place) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = login.split_once(':').map_or((login, None), |(user, word)| (user, Some(word)));
        let (host, port) = host_and_port(place)?;
        let some = |text: String| Some(text).filter(|text| !text.is_empty());
        let user = some(decoded(user)?)
            .or_else(|| env("PGUSER"))
            .or_else(|| env("USER"))
            .ok_or("name the user, as in postgres://user@host/database")?;
        let database = some(decoded(database)?).or_else(|| env("PGDATABASE")).unwrap_or_else(|| user.clone());
        let password = password.map(decoded).transpose()?.map(Secret);
        let mut ssl = env("PGSSLMODE").map(|mode| mode.parse::<SslMode>()).transpose()?;
        let mut roots = env("PGSSLROOTCERT").map(Roots::from);
        for parameter in parameters.split('&').filter(|p| !p.is_empty()) {
            match parameter.split_once('=') {
                Some(("sslmode", mode)) => ssl = Some(mode.parse()?),
                Some(("sslrootcert", file)) => roots = Some(decoded(file)?.into()),
                Some(("password", _)) => {
                    return Err(
                        "give the password by PGPASSWORD or ~/.pgpass, and not as a parameter".to_owned()
                    );
                }
                // What is taken for a parameter may be the rest of a password.
                _ if parameters.contains('@') => {
                    return Err("write %3F for a ? in a password".to_owned());
                }
                _ => {
                    let name = parameter.split('=').next().unwrap_or(parameter);
                    return Err(format!("the parameter {name} is not known; sslmode and sslrootcert are"));
                }
            }
        }
        if [&user, &database].iter().any(|text| text.contains('\0')) {
            return Err("a name with a null byte is none".to_owned());
        }
        // A host that only some authority knows is anybody's (libpq: "weak sslmode may not be used with sslrootcert=system").
        let ssl = match (ssl, &roots) {
            (None | Some(SslMode::VerifyFull), Some(Roots::System)) => SslMode::VerifyFull,
            (Some(SslMode::Disable), _) => SslMode::Disable,
            (Some(_), Some(Roots::System)) => {
                return Err("sslrootcert=system needs sslmode=verify-full".to_owned());
            }
            (ssl, _) => ssl.unwrap_or(SslMode::Prefer),
        };
        Ok(Self::Postgres(Server { host, port, user, database, password, ssl, roots }))
    }
}

fn host_and_port(place: &str) -> Result<(String, u16), String> {
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
    if host.contains(',') {
        return Err("name one host: several would be several paths".to_owned());
    }
    if host.is_empty() || host.starts_with('/') {
        return Err("name a host: a Unix socket has no network to measure".to_owned());
    }
    let port = match port {
        None | Some("") => PORT,
        Some(port) => port.parse().map_err(|_| NO_PORT.to_owned())?,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Result<Server, String> {
        Target::parse(url, |name| (name == "USER").then(|| "me".to_owned()))
            .map(|Target::Postgres(server)| server)
    }

    #[test]
    fn urls_are_read_as_libpq_reads_them() {
        let s =
            read("postgresql://a%40b:p%3Aw%2F@[::1]:99/d%20b?sslmode=verify-full&sslrootcert=/x").unwrap();
        assert_eq!((s.user.as_str(), s.database.as_str(), s.port), ("a@b", "d b", 99));
        assert_eq!((s.host.as_str(), s.address().as_str()), ("::1", "[::1]:99"));
        assert_eq!(s.password, Some(Secret("p:w/".to_owned())));
        assert_eq!((s.ssl, s.roots), (SslMode::VerifyFull, Some(Roots::File("/x".into()))));
        let s = read("postgres://db").unwrap();
        assert_eq!(
            (s.user.as_str(), s.database.as_str(), s.port, s.ssl),
            ("me", "me", 5432, SslMode::Prefer)
        );
        let s = read("postgres://db/d?sslrootcert=system").unwrap();
        assert_eq!((s.ssl, s.roots), (SslMode::VerifyFull, Some(Roots::System)));
        assert!(!format!("{:?}", read("postgres://u:s3cret@h/d").unwrap()).contains("s3cret"));
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        for (url, why) in [
            ("db1", "write a URL"),
            ("mysql://db", "not measured yet"),
            ("postgres:///d", "Unix socket"),
            ("postgres://%2Ftmp/d", "Unix socket"),
            ("postgres://h:x/d", "no port"),
            ("postgres://a,b/d", "one host"),
            ("postgres://h/d?password=x", "PGPASSWORD"),
            ("postgres://h/d?target_session_attrs=any", "not known"),
            ("postgres://h/d?sslmode=allow", "sslmode"),
            ("postgres://h/d?sslmode=require&sslrootcert=system", "verify-full"),
            ("postgres://h/d?sslrootcert=system&sslmode=verify-ca", "verify-full"),
            ("postgres://app:App/Pw9!@host:55432/shop", "%2F"),
            ("postgres://app:12?Pw9!@host:55432/shop", "%3F"),
            ("postgres://h/%zz", "hexadecimal"),
        ] {
            let error = read(url).expect_err(url);
            assert!(error.contains(why), "{url}: {error}");
            assert!(!error.contains("App") && !error.contains("Pw9"), "{error}");
        }
    }
}
