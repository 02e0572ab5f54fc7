//! Where a password is, besides in the URL: `PGPASSWORD`, then the file `PGPASSFILE` or `~/.pgpass`
//! (<https://www.postgresql.org/docs/15/libpq-pgpass.html>); for SQL Server `SQLCMDPASSWORD`, for `MySQL` `MYSQL_PWD`.

use crate::target::{Secret, Server, Target};
use crate::{Error, environment};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The password to log in with, if one is known.
pub(crate) fn password(
    target: &Target,
    env: impl Fn(&str) -> Option<OsString>,
) -> Result<Option<Secret>, Error> {
    let server = target.server();
    if server.password.is_some() {
        return Ok(server.password.clone());
    }
    let (name, is_alone) = match target {
        Target::Postgres(_) => ("PGPASSWORD", false),
        Target::Mssql(_) => ("SQLCMDPASSWORD", true),
        Target::Mysql(_) => ("MYSQL_PWD", true),
    };
    let password = environment::text(&env, name)
        .map_err(|why| Error::run(format!("the environment variable {why}")))?
        .map(Secret);
    if is_alone || password.is_some() {
        return Ok(password);
    }
    let named = env("PGPASSFILE").map(PathBuf::from);
    let Some(file) = named.clone().or_else(|| env("HOME").map(|home| Path::new(&home).join(".pgpass")))
    else {
        return Ok(None);
    };
    let shown = file.display();
    let bytes = match std::fs::read(&file) {
        Ok(bytes) => bytes,
        Err(_) if named.is_none() => return Ok(None),
        Err(e) => {
            return Err(Error::run(format!(
                "cannot read PGPASSFILE {shown}: {e}; name a file that you may read"
            )));
        }
    };
    #[cfg(unix)]
    if std::fs::metadata(&file).is_ok_and(|m| std::os::unix::fs::MetadataExt::mode(&m) & 0o077 != 0) {
        return Err(Error::run(format!(
            "others may read {shown}, so it is not used; mend that: chmod 600 {shown}"
        )));
    }
    let text = String::from_utf8(bytes);
    let text =
        text.map_err(|_| Error::run(format!("{shown} is not UTF-8, so it is not used; write it anew")))?;
    Ok(found(&text, server).map(Secret))
}

/// The first line that fits: `host:port:database:user:password`, where `*` fits anything and `\` takes the next as it is.
fn found(text: &str, server: &Server) -> Option<String> {
    let port = server.port.to_string();
    let wanted = [&server.host, &port, &server.database, &server.user];
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let mut fields = vec![String::new()];
        let mut characters = line.chars();
        while let Some(c) = characters.next() {
            // The password is the rest, but for its own escapes.
            let is_key = fields.len() < 5;
            let field = fields.last_mut()?;
            match c {
                '\\' => field.extend(characters.next()),
                ':' if is_key => fields.push(String::new()),
                c => field.push(c),
            }
        }
        let (password, keys) = fields.split_last()?;
        let fits =
            keys.len() == 4 && keys.iter().zip(wanted).all(|(key, wanted)| key == "*" || key == wanted);
        fits.then(|| password.clone())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_fits_counts() {
        let target = Target::parse("postgres://u@h/d", |_| None).unwrap();
        let of = |text: &str| found(text, target.server());
        assert_eq!(
            of("#h:5432:d:u:no\nother:*:*:*:x\nh:5432:*:u:a\\:b\\\\c:d\nh:5432:d:u:late").as_deref(),
            Some("a:b\\c:d")
        );
        assert_eq!(of("h:5433:d:u:x\nh:5432:d:u"), None);
    }
}
