//! What a run does for those who do not watch it, checked.

use crate::exit::Failure;
use crate::probe::args::OperateArgs;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What means something to a shell, beside blanks.
const SHELL: &str = "|&;<>()$`\\\"'*?[]#~=%!{}\n";

/// The options, checked.
#[derive(Debug, Clone)]
pub(crate) struct Operate {
    /// A new recording each period.
    pub(crate) rotation: Option<Rotation>,
    /// A line about each target so often.
    pub(crate) interval: Option<Duration>,
    /// What is run for each event.
    pub(crate) on_event: Option<Command>,
    /// Where the figures are kept for Prometheus.
    pub(crate) textfile: Option<PathBuf>,
}

impl Operate {
    pub(crate) fn new(args: OperateArgs) -> Result<Self, Failure> {
        if let Some(file) = args.textfile.as_ref().filter(|file| file.extension() != Some("prom".as_ref())) {
            return Err(Failure::usage(format!(
                "--textfile {}: node_exporter reads files whose names end in .prom alone; call it {}.prom",
                file.display(),
                file.display()
            )));
        }
        let rotation = args.rotate.map(|every| Rotation { every, keep: args.keep });
        if let Some(Rotation { every, keep: Some(keep) }) =
            rotation.filter(|r| r.keep.is_some_and(|k| k < r.every))
        {
            return Err(Failure::usage(format!(
                "--keep {keep:?} is shorter than a recording of --rotate {every:?}; keep at least one"
            )));
        }
        let on_event = args.on_event.as_deref().map(Command::new).transpose()?;
        Ok(Self { rotation, interval: args.interval_report, on_event, textfile: args.textfile })
    }

    /// As `--show-config` prints it.
    pub(crate) fn shown(&self) -> Value {
        json!({
            "rotate_ns": self.rotation.map(|r| r.every.as_nanos() as u64),
            "keep_ns": self.rotation.and_then(|r| r.keep).map(|keep| keep.as_nanos() as u64),
            "interval_report_ns": self.interval.map(|every| every.as_nanos() as u64),
            "on_event": self.on_event.as_ref().map(Command::shown),
            "textfile": self.textfile.as_ref().map(|file| file.display().to_string()),
        })
    }
}

/// `--rotate` and `--keep`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rotation {
    /// How long a recording is.
    pub(crate) every: Duration,
    /// How long one is kept after its end; none: for ever.
    pub(crate) keep: Option<Duration>,
}

/// What is run.
#[derive(Debug, Clone)]
pub(crate) struct Command {
    text: String,
    /// A program and its arguments.
    pub(crate) words: Vec<String>,
}

impl Command {
    /// Plain words are a program and its arguments; anything else is for a shell.
    pub(crate) fn new(text: &str) -> Result<Self, Failure> {
        let plain = !text.contains(|c| SHELL.contains(c));
        let words: Vec<String> = if plain {
            text.split_whitespace().map(str::to_owned).collect()
        } else {
            ["sh", "-c", text].map(str::to_owned).to_vec()
        };
        let Some(program) = words.first() else {
            return Err(Failure::usage("--on-event: which command?"));
        };
        if !is_there(program) {
            return Err(Failure::usage(format!(
                "--on-event {program}: there is no such program; give its path, or see that it is on PATH"
            )));
        }
        Ok(Self { text: text.to_owned(), words })
    }

    /// Its program, for people: what follows may be a secret.
    pub(crate) fn shown(&self) -> &str {
        self.text.split_whitespace().next().unwrap_or_default()
    }
}

/// Whether a program can be found, as the system will look for it.
fn is_there(program: &str) -> bool {
    if program.contains('/') {
        return Path::new(program).is_file();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_words_need_no_shell() {
        let words = |text: &str| Command::new(text).map(|c| c.words).map_err(|e| e.to_string());
        assert_eq!(words("cat -u  /dev/stdin").unwrap(), ["cat", "-u", "/dev/stdin"]);
        assert_eq!(words("cat >> file").unwrap(), ["sh", "-c", "cat >> file"]);
        assert_eq!(words("A=b cat").unwrap(), ["sh", "-c", "A=b cat"]);
        assert!(words(" ").is_err_and(|e| e.contains("which command")));
        assert!(words("no-such-program --option").is_err_and(|e| e.contains("no such program")));
        assert!(words("./no-such-program").is_err());
    }
}
