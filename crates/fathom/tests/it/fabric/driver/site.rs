//! A directory with a scenario, and a fabric of a name of its own, as a user has it.

use crate::support::{FATHOM, Kept, must, needs, needs_root, skip};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use tempfile::TempDir;

/// The user and group "nobody".
pub(crate) const NOBODY: &str = "65534";

/// Who uses the fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum User {
    Root,
    /// Without privilege; sees a `/dev/net/tun` that anybody may open, as distributions ship it.
    Nobody,
}

/// A directory with a scenario, and a fabric of a name of its own. Dropped, the fabric is down.
pub(crate) struct Site {
    pub(crate) user: User,
    pub(crate) home: TempDir,
    pub(crate) name: String,
}

impl Site {
    /// None, visibly, where this machine cannot.
    pub(crate) fn new(user: User, scenario: &str) -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        if !needs_root() || !needs("ip") || !needs("ping") {
            return None;
        }
        let home = tempfile::tempdir().expect("a directory");
        let name = format!("t{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        fs::write(home.path().join("scenario.toml"), scenario).expect("a file");
        fs::create_dir(home.path().join("run")).expect("a directory");
        if user == User::Nobody {
            must("chown", &["-R", &format!("{NOBODY}:{NOBODY}"), home.path().to_str().expect("text")]);
        }
        let site = Self { user, home, name };
        if user == User::Nobody
            && !site.command("unshare").args(["-Urn", "true"]).status().is_ok_and(|s| s.success())
        {
            skip("it needs user namespaces for everybody (user.max_user_namespaces)");
            return None;
        }
        Some(site)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// A command as the user.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = match self.user {
            User::Root => Command::new(program),
            User::Nobody => {
                let script = format!(
                    "mount -t tmpfs -o mode=0755 net /dev/net && mknod -m 0666 /dev/net/tun c 10 200 && exec setpriv \
                     --reuid={NOBODY} --regid={NOBODY} --clear-groups -- \"$@\""
                );
                let mut command = Command::new("unshare");
                command.args(["--mount", "sh", "-c", &script, "sh", program]);
                command
            }
        };
        command.current_dir(self.home.path()).env_remove("FATHOM_FABRIC").env("FATHOM_CLOUD", "off");
        command.env("XDG_RUNTIME_DIR", self.path("run"));
        // Without directories of root's, which would make "not there" a "may not look".
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command
    }

    /// `fathom fabric` with these arguments, separated by blanks, `NAME` standing for the fabric's name.
    pub(crate) fn fabric(&self, arguments: &str) -> Command {
        let mut command = self.command(FATHOM);
        command
            .arg("fabric")
            .args(arguments.split(' ').map(|word| if word == "NAME" { &self.name } else { word }));
        command
    }

    pub(crate) fn output(&self, arguments: &str) -> Output {
        self.fabric(arguments).output().expect("a command")
    }

    /// The standard output of what must succeed.
    pub(crate) fn must(&self, arguments: &str) -> String {
        let out = self.output(arguments);
        assert!(out.status.success(), "{arguments}: {}: {}", out.status, text(&out.stderr));
        text(&out.stdout)
    }

    pub(crate) fn json(&self, arguments: &str) -> Value {
        let out = self.must(arguments);
        serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}"))
    }

    /// The one line that a command says when it fails with this code.
    pub(crate) fn refused(&self, arguments: &str, code: i32) -> String {
        let out = self.output(arguments);
        assert_eq!(out.status.code(), Some(code), "{arguments}: {}", text(&out.stderr));
        text(&out.stderr)
    }

    pub(crate) fn up(&self) -> Value {
        self.json("up scenario.toml --name NAME --json")
    }

    pub(crate) fn exec(&self, host: &str, command: &[&str]) -> Command {
        let mut exec = self.fabric(&format!("exec --name NAME {host} --"));
        exec.args(command);
        exec
    }

    /// A reflector on a host, that listens by now.
    pub(crate) fn reflector(&self, host: &str) -> Kept {
        let mut command = self.exec(host, &[FATHOM, "echo", "--json"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("a command");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("text");
        assert!(line.contains("listening"), "{line:?}");
        Kept(child)
    }

    /// What a probe on a host sums up.
    pub(crate) fn probe(&self, host: &str, arguments: &str) -> Value {
        let mut command = self.exec(host, &[FATHOM, "probe", "--no-record", "--quiet", "--json"]);
        let out = command.args(arguments.split(' ')).output().expect("a command");
        assert!(out.status.success(), "{arguments}: {}", text(&out.stderr));
        serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(&out.stdout)))
    }

    /// Where the fabric's state stands while it is up.
    pub(crate) fn state(&self) -> PathBuf {
        match self.user {
            User::Root => Path::new("/run/fathom/fabric").join(&self.name),
            User::Nobody => self.path("run/fathom/fabric").join(&self.name),
        }
    }

    /// Fails unless nothing is there: state, lock, named networks, processes.
    pub(crate) fn assert_nothing_left(&self) {
        let state = self.state();
        assert!(!state.exists() && !state.with_extension("lock").exists(), "{}", state.display());
        assert_eq!(self.named_networks(), Vec::<String>::new());
        assert_eq!(self.marked_processes(), Vec::<u32>::new());
    }

    pub(crate) fn named_networks(&self) -> Vec<String> {
        let prefix = format!("fathom-{}-", self.name);
        let names = fs::read_dir("/run/netns").into_iter().flatten().flatten();
        names
            .map(|e| e.file_name().to_string_lossy().into_owned())
            .filter(|n| n.starts_with(&prefix))
            .collect()
    }

    /// Processes that `exec` of this fabric started, or their children.
    pub(crate) fn marked_processes(&self) -> Vec<u32> {
        let mark = format!("FATHOM_FABRIC_INSTANCE={}/", self.name);
        let pids = fs::read_dir("/proc").expect("/proc").flatten();
        pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|pid: &u32| {
                let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
                environment.split(|&b| b == 0).any(|entry| entry.starts_with(mark.as_bytes()))
            })
            .collect()
    }

    pub(crate) fn truth(&self, dir: &str) -> Vec<Value> {
        let lines = fs::read_to_string(self.path(dir).join("truth.jsonl")).expect("truth.jsonl");
        lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
            .collect()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // Down already, or never up, is no matter.
        let _ = self.output("down NAME");
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
