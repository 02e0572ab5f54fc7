//! The arguments of `fathom probe --as-client`, beside those that every probe has.

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args as _, Command};
use std::path::PathBuf;

/// What a client is asked to do.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "As an application")]
pub(crate) struct ClientArgs {
    /// Behave as an application under the policy in this file (timeouts, retries, pool, circuit breaker, fallback) and tell what became of its requests: docs/policies.md
    // Those are what others require: clap then asks for none of them, and `refuse_beside_client` names those others.
    #[arg(long, value_name = "POLICY.toml", conflicts_with_all = ["throughput", "load", "rotate", "connect", "stamp", "tls"])]
    pub(in crate::probe) as_client: Option<PathBuf>,
    /// With --as-client: requests a second, whatever becomes of those before [default: 1]
    #[arg(long, value_name = "N", requires = "as_client", value_parser = a_second)]
    pub(in crate::probe) rate: Option<f64>,
}

/// What an application has of a probe's arguments.
const ITS_OWN: [&str; 25] = [
    "targets",
    "as_client",
    "rate",
    "duration",
    "tcp",
    "allow_high_rate",
    "key",
    "ipv4",
    "ipv6",
    "source",
    "dscp",
    "label",
    "from",
    "to",
    "via",
    "tags",
    "mark",
    "record",
    "no_record",
    "readable",
    "quiet",
    "json",
    "verbose",
    "log",
    "log_file",
];

/// Refuses whatever else was given beside --as-client. What the environment says is for all runs, and is passed over.
pub(crate) fn refuse_beside_client(cli: &ArgMatches) -> Result<(), clap::Error> {
    let probe = cli.subcommand_matches("probe").filter(|probe| probe.contains_id("as_client"));
    let Some(probe) = probe else { return Ok(()) };
    let mut command = super::Args::augment_args(Command::new("probe"));
    let others = command.get_arguments().filter(|arg| !ITS_OWN.contains(&arg.get_id().as_str()));
    let is_given = |id: &str| probe.value_source(id) == Some(ValueSource::CommandLine);
    let given = others.filter(|arg| is_given(arg.get_id().as_str())).find_map(clap::Arg::get_long);
    let message = given.map(|name| format!("--{name} cannot be used with --as-client; leave it out"));
    message.map_or(Ok(()), |message| Err(command.error(ErrorKind::ArgumentConflict, message)))
}

pub(crate) fn a_second(text: &str) -> Result<f64, String> {
    let rate = text.trim().parse::<f64>().ok().filter(|rate| (0.001..=100_000.0).contains(rate));
    rate.ok_or_else(|| "requests a second, from 0.001 to 100000, as in 20".to_owned())
}
