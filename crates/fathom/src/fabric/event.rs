//! `fathom fabric event`: makes something happen now.

use crate::exit::Failure;
use crate::output;
use fathom_emulator::control::{Request, ask};
use fathom_emulator::directory::FabricDir;
use serde_json::Value;
use std::fmt::Write as _;

const EXAMPLES: &str = "\
Examples:
  fathom fabric event link-cut --path same-zone --direction forward --for 3s
  fathom fabric event path-change --path same-zone --added 250us
  fathom fabric event host-pause --host server --for 2s
  fathom fabric event live-migration --host server --freeze 3s --brownout 30s \\
      --redirect 60s --redirect-added 150us --then silent
  fathom fabric event flush-flows --middlebox firewall
  fathom fabric event idle-limit --middlebox firewall idle=2m

The words are those of a scenario's [[event]]; what has no option here is given as KEY=VALUE.";

/// Arguments of `fathom fabric event`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Which fabric, where several are up [default: that of the environment, or the only one]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// live-migration, host-pause, path-change, link-cut; with --middlebox: flush-flows, idle-limit, scale-in, failover...
    kind: String,
    /// The host that it happens to
    #[arg(long)]
    host: Option<String>,
    /// The label of the path that it happens to
    #[arg(long, value_name = "LABEL")]
    path: Option<String>,
    /// The middlebox that it happens to
    #[arg(long, value_name = "NAME")]
    middlebox: Option<String>,
    /// How long it lasts; absent is for good, where that can be
    #[arg(long = "for", value_name = "DURATION")]
    duration: Option<String>,
    /// link-cut: forward, backward or both
    #[arg(long)]
    direction: Option<String>,
    /// path-change: added one way; negative is shorter
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    added: Option<String>,
    /// live-migration: how long before the freeze memory is copied
    #[arg(long, value_name = "DURATION")]
    brownout: Option<String>,
    /// live-migration: what that adds one way
    #[arg(long, value_name = "DURATION")]
    brownout_added: Option<String>,
    /// live-migration: how long the host stands still
    #[arg(long, value_name = "DURATION")]
    freeze: Option<String>,
    /// live-migration: for how long old flows go by way of the old place
    #[arg(long, value_name = "DURATION")]
    redirect: Option<String>,
    /// live-migration: what that adds one way
    #[arg(long, value_name = "DURATION")]
    redirect_added: Option<String>,
    /// live-migration: what becomes of redirected flows: direct, silent or reset
    #[arg(long)]
    then: Option<String>,
    /// Anything else that an [[event]] may say
    #[arg(value_name = "KEY=VALUE")]
    more: Vec<String>,
    /// Print the event as it was understood, as JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    /// The event as an `[[event]]` has it.
    fn toml(&self) -> Result<String, Failure> {
        let options = [
            ("kind", Some(&self.kind)),
            ("host", self.host.as_ref()),
            ("path", self.path.as_ref()),
            ("middlebox", self.middlebox.as_ref()),
            ("duration", self.duration.as_ref()),
            ("direction", self.direction.as_ref()),
            ("added", self.added.as_ref()),
            ("brownout", self.brownout.as_ref()),
            ("brownout-added", self.brownout_added.as_ref()),
            ("freeze", self.freeze.as_ref()),
            ("redirect", self.redirect.as_ref()),
            ("redirect-added", self.redirect_added.as_ref()),
            ("then", self.then.as_ref()),
        ];
        let mut toml = String::new();
        for (key, value) in options {
            if let Some(value) = value {
                // Infallible: the text is in memory.
                let _ = writeln!(toml, "{key} = {}", quoted(value));
            }
        }
        for pair in &self.more {
            let Some((key, value)) = pair.split_once('=').filter(|(key, _)| is_bare(key)) else {
                return Err(Failure::usage(format!("write KEY=VALUE, as in idle=2m (got {pair})")));
            };
            let plain = matches!(value, "true" | "false") || value.parse::<i64>().is_ok();
            let value = if plain { value.to_owned() } else { quoted(value) };
            let _ = writeln!(toml, "{key} = {value}");
        }
        Ok(toml)
    }
}

/// A bare key of TOML.
fn is_bare(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

/// A string of JSON, which is one of TOML too.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Runs `fathom fabric event`.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let fabric = FabricDir::find(args.name.as_deref())?;
    let (event, _): (Value, _) = ask(&fabric, &Request::Event { toml: args.toml()? })?;
    let text =
        if args.json { event.to_string() } else { format!("{} in fabric {}", args.kind, fabric.name()) };
    output::print("the event", &(text + "\n")).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn toml(line: &str) -> Result<String, Failure> {
        Line::try_parse_from(format!("event {line}").split(' ')).unwrap().args.toml()
    }

    #[test]
    fn options_become_the_words_of_a_scenario() {
        assert_eq!(
            toml("link-cut --path a --for 3s").unwrap(),
            "kind = \"link-cut\"\npath = \"a\"\nduration = \"3s\"\n"
        );
        assert!(toml("path-change --path a --added -250us").unwrap().ends_with("added = \"-250us\"\n"));
        let other = toml("scale-in --middlebox fw instances=2 forget=true idle=2m").unwrap();
        assert!(other.ends_with("instances = 2\nforget = true\nidle = \"2m\"\n"), "{other}");
        assert!(toml("x a").is_err() && toml("x a.b=1").is_err());
        // What could break out of its quotes does not.
        assert_eq!(toml("a\"b").unwrap(), "kind = \"a\\\"b\"\n");
    }
}
