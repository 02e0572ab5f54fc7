//! A real `PostgreSQL` that an unprivileged user runs, and `fathom sql` asking it.

use super::database::{PASSWORD, Server, result};
use super::{FATHOM, free_port, needs_root, skip, wait_for};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

/// The directory of the newest server's programs, as Debian installs them.
fn programs() -> Option<PathBuf> {
    let mut found: Vec<_> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join("bin"))
        .collect();
    found.sort();
    found.into_iter().rfind(|bin| bin.join("initdb").is_file())
}

/// Makes a user without permission to see what sessions do.
pub(crate) const WITHOUT_OBSERVER: &str = "CREATE USER md5user PASSWORD 's3cret-w0rd'; \
                                           REVOKE EXECUTE ON FUNCTION pg_stat_get_activity FROM PUBLIC";

/// A server on its own port. Dropped, it is killed.
pub(crate) struct Postgres(Server);

impl Postgres {
    /// Starts it on loopback; `None`, with a message, where this machine cannot.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with("127.0.0.1", |program| Command::new(program))
    }

    /// Starts it where `within` runs programs.
    pub(crate) fn start_with(host: &str, within: impl Fn(&str) -> Command) -> Option<Self> {
        let Some(bin) = programs() else {
            skip("no PostgreSQL server is installed (Debian: postgresql)");
            return None;
        };
        // The postmaster refuses to run as root: root starts it as another user.
        if !needs_root() {
            return None;
        }
        let home = tempfile::tempdir().unwrap();
        let data = home.path().join("data");
        std::fs::write(home.path().join("password"), PASSWORD).unwrap();
        std::os::unix::fs::chown(home.path(), Some(65_534), Some(65_534)).unwrap();
        std::fs::set_permissions(home.path().join("password"), std::fs::Permissions::from_mode(0o644))
            .unwrap();
        let unprivileged = |command: &mut Command, program: &str| {
            command
                .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
                .arg(bin.join(program))
                .current_dir(home.path());
        };
        let mut initdb = Command::new("setpriv");
        unprivileged(&mut initdb, "initdb");
        initdb.args(["-U", "owner", "-N", "--auth=scram-sha-256", "--pwfile=password", "-D"]).arg(&data);
        let made = initdb.output().expect("setpriv");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let hba = "host all md5user all md5\nhost all all all scram-sha-256\n";
        std::fs::write(data.join("pg_hba.conf"), hba).unwrap();
        let port = free_port();
        let mut postgres = within("setpriv");
        unprivileged(&mut postgres, "postgres");
        let settings = [
            format!("port={port}"),
            format!("listen_addresses={host}"),
            "unix_socket_directories=".to_owned(),
            "fsync=off".to_owned(),
        ];
        postgres.arg("-D").arg(&data).args(settings.iter().flat_map(|setting| ["-c", setting]));
        let address = format!("{host}:{port}");
        Some(Self(Server::start(postgres, home, address, "ready to accept connections")))
    }

    /// Restarts it as `pg_ctl restart -m fast` does.
    pub(crate) fn restart(&mut self) {
        let ended = Command::new("kill").args(["-INT", &self.0.id().to_string()]).status().unwrap();
        assert!(ended.success());
        self.0.begin_again("ready to accept connections");
    }

    /// Stops all of its processes; its kernel goes on.
    pub(crate) fn freeze(&self) {
        let postmaster = self.0.id().to_string();
        let stop =
            |process: &str| Command::new("kill").args(["-STOP", process]).output().unwrap().status.success();
        // The postmaster first: it starts the others.
        assert!(stop(&postmaster));
        let children = Command::new("pgrep").args(["-P", &postmaster]).output().unwrap();
        let children = String::from_utf8_lossy(&children.stdout).into_owned();
        // A child may have ended meanwhile.
        children.split_whitespace().for_each(|child| _ = stop(child));
    }

    pub(crate) fn url(&self) -> String {
        format!("postgres://owner@{}/postgres", self.address)
    }

    pub(crate) fn sql(&self, arguments: &[&str]) -> Command {
        sql(Command::new(FATHOM), &self.url(), arguments)
    }

    /// The URL of a new user without permission to see what sessions do.
    pub(crate) fn url_without_observer(&self) -> String {
        self.ask(&["--count", "1", "--simple", "--query", WITHOUT_OBSERVER]);
        self.url().replace("owner@", "md5user@")
    }

    /// Waits until so many sessions sleep in a query.
    pub(crate) fn wait_until_asleep(&self, sleeping: u64) {
        let ask = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
        wait_for("sleeping sessions", || {
            let rows = self.ask(&["--count", "1", "--query", ask])["rows"].as_u64();
            (rows == Some(sleeping)).then_some(())
        });
    }

    pub(crate) fn ask(&self, arguments: &[&str]) -> Value {
        result(&self.sql(arguments).arg("--json").output().unwrap())
    }
}

impl std::ops::Deref for Postgres {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.0
    }
}

impl std::ops::DerefMut for Postgres {
    fn deref_mut(&mut self) -> &mut Server {
        &mut self.0
    }
}

pub(crate) fn sql(command: Command, url: &str, arguments: &[&str]) -> Command {
    super::database::sql(command, "PGPASSWORD", url, arguments)
}
