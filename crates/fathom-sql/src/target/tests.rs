use super::*;

fn read(url: &str) -> Result<Server, String> {
    let target = Target::parse(url, |name| match name {
        "USER" => Some("me".into()),
        "SQLCMDDBNAME" => Some("sales".into()),
        // Of the other's variables none is heeded.
        "PGSSLMODE" if url.starts_with("mssql") => Some("verify-full".into()),
        _ => None,
    });
    target.map(|target| target.server().clone()).map_err(|why| why.to_string())
}

/// The URL was said to be wrong, which has no such word (a stranger).
#[test]
fn invalid_sslmode_names_its_source() {
    let env = |name: &str| match name {
        "PGSSLMODE" => Some("bogus".into()),
        _ => Some("me".into()).filter(|_| name == "USER"),
    };
    let error = Target::parse("postgres://h", env).expect_err("no mode").to_string();
    assert!(error.starts_with("the environment variable PGSSLMODE=bogus: write disable"), "{error}");
    let error = Target::parse("postgres://h?sslmode=bogus", |_| None).expect_err("no mode").to_string();
    assert!(error.starts_with("the URL of the database: "), "{error}");
    // What the URL says itself it is not asked for.
    let target = Target::parse("postgres://h?sslmode=require", env).unwrap();
    assert_eq!(target.server().ssl, SslMode::Require);
}

#[test]
fn urls_are_read_as_libpq_reads_them() {
    let s = read("postgresql://a%40b:p%3Aw%2F@[::1]:99/d%20b?sslmode=verify-full&sslrootcert=/x").unwrap();
    assert_eq!((s.user.as_str(), s.database.as_str(), s.port), ("a@b", "d b", 99));
    assert_eq!((s.host.as_str(), s.address().as_str()), ("::1", "[::1]:99"));
    assert_eq!(s.password, Some(Secret("p:w/".to_owned())));
    assert_eq!((s.ssl, s.roots), (SslMode::VerifyFull, Some(Roots::File("/x".into()))));
    let s = read("postgres://db").unwrap();
    assert_eq!((s.user.as_str(), s.database.as_str(), s.port, s.ssl), ("me", "me", 5432, SslMode::Prefer));
    let s = read("postgres://db/d?sslrootcert=system").unwrap();
    assert_eq!((s.ssl, s.roots), (SslMode::VerifyFull, Some(Roots::System)));
    let s = read("mssql://db").unwrap();
    assert_eq!(
        (s.user.as_str(), s.database.as_str(), s.port, s.ssl, s.login_only),
        ("me", "sales", 1433, SslMode::Require, false)
    );
    let s = read("mariadb://db").unwrap();
    assert_eq!((s.user.as_str(), s.database.as_str(), s.port, s.ssl), ("me", "", 3306, SslMode::Prefer));
    let s = read("mysql://a@db/d?ssl-mode=VERIFY_IDENTITY").unwrap();
    assert_eq!((s.database.as_str(), s.ssl), ("d", SslMode::VerifyFull));
    assert_eq!(read("mssql://db?sslmode=prefer").unwrap().ssl, SslMode::Prefer);
    let s = read("mssql://sa@db:99/d?sslmode=login").unwrap();
    assert_eq!((s.port, s.ssl, s.login_only), (99, SslMode::Require, true));
    assert!(!format!("{:?}", read("postgres://u:s3cret@h/d").unwrap()).contains("s3cret"));
}

/// It was taken for one that is not set: another user, or a mode that nobody had asked for.
#[cfg(unix)]
#[test]
fn non_utf8_variable_is_named_not_shown() {
    use std::os::unix::ffi::OsStringExt as _;
    for wrong in ["PGUSER", "USER", "PGDATABASE", "PGSSLMODE"] {
        let env = |name: &str| match name {
            name if name == wrong => Some(OsString::from_vec(b"s3cret\xff".to_vec())),
            "USER" => Some("me".into()),
            _ => None,
        };
        let error = Target::parse("postgres://h", env).expect_err(wrong).to_string();
        assert!(error.contains(&format!("variable {wrong} is not UTF-8")), "{error}");
        assert!(!error.contains("s3cret"), "{error}");
        // Who names all of it in the URL asks for none of them.
        let whole = Target::parse("mssql://u@h/d?sslmode=disable", env);
        assert!(whole.is_ok(), "{wrong}: {whole:?}");
    }
    // The name of a file need be no text.
    let env = |name: &str| match name {
        "PGSSLROOTCERT" => Some(OsString::from_vec(b"/tmp/\xff".to_vec())),
        _ => Some("me".into()).filter(|_| name == "USER"),
    };
    let target = Target::parse("postgres://h", env).unwrap();
    let file = PathBuf::from(OsString::from_vec(b"/tmp/\xff".to_vec()));
    assert_eq!(target.server().roots, Some(Roots::File(file)));
}

#[test]
fn what_cannot_be_read_says_why() {
    for (url, why) in [
        ("db1", "write a URL"),
        ("oracle://db", "mysql:// or mssql://"),
        ("mysql://db?sslmode=login", "sslmode"),
        ("mysql://db?ssl-mode=require", "REQUIRED"),
        ("postgres://db?ssl-mode=REQUIRED", "not known"),
        ("mysql://h/d?password=x", "MYSQL_PWD"),
        ("postgres:///d", "Unix socket"),
        ("postgres://%2Ftmp/d", "Unix socket"),
        ("postgres://h:x/d", "no port"),
        ("postgres://h:0/d", "from 1 to 65535"),
        ("mssql://[::1]:0/d", "from 1 to 65535"),
        ("postgres://a,b/d", "one host"),
        ("postgres://h/d?password=x", "PGPASSWORD"),
        ("postgres://h/d?target_session_attrs=any", "not known"),
        ("postgres://h/d?sslmode=allow", "sslmode"),
        ("postgres://h/d?sslmode=login", "sslmode"),
        ("mssql://h/d?password=x", "SQLCMDPASSWORD"),
        ("postgres://h/d?sslmode=require&sslrootcert=system", "verify-full"),
        ("postgres://h/d?sslrootcert=system&sslmode=verify-ca", "verify-full"),
        ("postgres://app:App/Pw9!@host:55432/shop", "%2F"),
        ("postgres://app:12?Pw9!@host:55432/shop", "%3F"),
        ("postgres://h/%zz", "hexadecimal"),
        ("sqlserver://db1;user=app;password=App-Pw9", "user@host"),
        ("sqlserver://db1;user=app;password=App:Pw9", "user@host"),
        ("sqlserver://db1;user=app;password=App/Pw9", "user@host"),
        ("mssql://db1:1433;user=app;password=App-Pw9", "no port"),
        ("mssql://db1%3Bpassword%3DApp-Pw9/d", "user@host"),
        ("sqlserver://db1;user=app;password=App@Pw9", "user@host"),
        ("sqlserver://db1;user=app;password=App:1@Pw9", "user@host"),
        ("mssql://db1/shop;user=app;password=AppPw9", "user@host"),
    ] {
        let error = read(url).expect_err(url);
        assert!(error.contains(why), "{url}: {error}");
        assert!(!error.contains("App") && !error.contains("Pw9"), "{error}");
    }
}
