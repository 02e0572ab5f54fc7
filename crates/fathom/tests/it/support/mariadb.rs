//! A real `MariaDB` that an unprivileged user runs, and `fathom sql` asking it.

use super::database::{Server, result};
use super::{FATHOM, free_port, needs, needs_root, skip, wait_for};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAMS: [&str; 3] =
    ["/usr/sbin/mariadbd", "/usr/bin/mariadb-install-db", "/usr/bin/my_print_defaults"];
/// A user for each login method, one that must encrypt, and one with a plugin that fathom does not know.
const USERS: &str = "\
CREATE DATABASE shop;
CREATE USER owner IDENTIFIED BY 's3cret-w0rd';
GRANT ALL ON *.* TO owner WITH GRANT OPTION;
CREATE USER nobody;
CREATE USER either IDENTIFIED VIA unix_socket OR mysql_native_password USING PASSWORD('s3cret-w0rd');
CREATE USER secured IDENTIFIED BY 's3cret-w0rd' REQUIRE SSL;
CREATE USER old IDENTIFIED VIA mysql_old_password USING '0123456789abcdef';
";

/// A server on its own port. Dropped, it is killed.
pub(crate) struct Mariadb(Server);

impl Mariadb {
    /// Starts it on loopback; `None`, with a message, where this machine cannot.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with("127.0.0.1", &[], |program| Command::new(program))
    }

    /// Starts it with the certificate that [`certificate`](Self::certificate) names.
    pub(crate) fn start_with_tls() -> Option<Self> {
        let tls = ["--ssl-cert=../certificate.pem", "--ssl-key=../key.pem"];
        Self::start_with("127.0.0.1", &tls, |program| Command::new(program))
    }

    /// Starts it where `within` runs programs. It refuses to run as root.
    pub(crate) fn start_with(host: &str, more: &[&str], within: impl Fn(&str) -> Command) -> Option<Self> {
        if !PROGRAMS.iter().all(|program| Path::new(program).is_file()) {
            skip("no MariaDB server is installed (Debian: mariadb-server-core mariadb-client-core)");
            return None;
        }
        if !needs_root() || !needs("openssl") {
            return None;
        }
        let home = tempfile::tempdir().unwrap();
        let (data, init) = (home.path().join("data"), home.path().join("users.sql"));
        let temporary = home.path().join("tmp");
        std::fs::create_dir(&data).unwrap();
        std::fs::create_dir(&temporary).unwrap();
        std::fs::write(&init, USERS).unwrap();
        let mut certificate = Command::new("openssl");
        certificate
            .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=somebody"])
            .args([
                "-addext",
                &format!("subjectAltName=IP:{host}"),
                "-keyout",
                "key.pem",
                "-out",
                "certificate.pem",
            ]);
        let made = certificate.current_dir(home.path()).output().expect("openssl");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        for path in [home.path(), &data, &temporary, &home.path().join("key.pem")] {
            std::os::unix::fs::chown(path, Some(65_534), Some(65_534)).unwrap();
        }
        let unprivileged = |command: &mut Command, program: &str| {
            command
                .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--", program, "--no-defaults"])
                .arg(format!("--datadir={}", data.display()))
                // A starting server removes the temporary tables of another one in the same directory.
                .arg(format!("--tmpdir={}", temporary.display()))
                .current_dir(home.path());
        };
        let mut install = Command::new("setpriv");
        unprivileged(&mut install, PROGRAMS[1]);
        let made = install.args(["--auth-root-authentication-method=normal", "--skip-test-db"]).output();
        let made = made.expect("setpriv");
        let told = [made.stdout, made.stderr].concat();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&told));
        let port = free_port();
        let mut server = within("setpriv");
        unprivileged(&mut server, PROGRAMS[0]);
        server
            .args([format!("--port={port}"), format!("--bind-address={host}")])
            .arg(format!("--init-file={}", init.display()))
            .args(["--socket=socket", "--pid-file=pid", "--innodb-flush-log-at-trx-commit=0"])
            .args(["--innodb-buffer-pool-size=16M", "--skip-secure-auth"])
            .args(more);
        Some(Self(Server::start(server, home, format!("{host}:{port}"), "ready for connections")))
    }

    pub(crate) fn certificate(&self) -> PathBuf {
        self.home.path().join("certificate.pem")
    }

    pub(crate) fn url(&self) -> String {
        self.url_of("owner", "/shop")
    }

    /// The URL of another user; `rest` names a database or `sslmode`.
    pub(crate) fn url_of(&self, user: &str, rest: &str) -> String {
        format!("mysql://{user}@{}{rest}", self.address)
    }

    pub(crate) fn sql(&self, arguments: &[&str]) -> Command {
        sql(Command::new(FATHOM), &self.url(), arguments)
    }

    /// How many sessions of the server are like this.
    pub(crate) fn sessions(&self, which: &str) -> u64 {
        let ask = format!("SELECT ID FROM information_schema.PROCESSLIST WHERE {which}");
        self.ask(&["--count", "1", "--query", &ask])["rows"].as_u64().unwrap()
    }

    /// Waits until so many sessions of the server are like this.
    pub(crate) fn wait_for_sessions(&self, count: u64, which: &str) {
        wait_for(which, || (self.sessions(which) == count).then_some(()));
    }

    pub(crate) fn ask(&self, arguments: &[&str]) -> Value {
        result(&self.sql(arguments).arg("--json").output().unwrap())
    }
}

impl std::ops::Deref for Mariadb {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.0
    }
}

impl std::ops::DerefMut for Mariadb {
    fn deref_mut(&mut self) -> &mut Server {
        &mut self.0
    }
}

pub(crate) fn sql(command: Command, url: &str, arguments: &[&str]) -> Command {
    super::database::sql(command, "MYSQL_PWD", url, arguments)
}
