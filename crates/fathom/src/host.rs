//! `fathom host`: a study's side on a host over SSH. Nobody types it; the protocol stands in `fathom-host`.

use crate::exit::Failure;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `fathom host`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, clap::Subcommand)]
enum Role {
    /// Answer the request on standard input
    Answer,
    /// Run a program in a job's directory for so many seconds at most, and leave word of how it ended
    Supervise {
        directory: PathBuf,
        limit_s: u64,
        #[arg(last = true)]
        argv: Vec<OsString>,
    },
    /// Become a supervisor's program
    Become {
        directory: PathBuf,
        supervisor: u32,
        #[arg(last = true)]
        argv: Vec<OsString>,
    },
}

/// Runs `fathom host`.
pub(crate) fn run(args: Args) -> Result<ExitCode, Failure> {
    let failed = |error: fathom_host::Error| Failure::run(error.to_string());
    match args.role {
        Role::Answer => {
            let home = std::env::home_dir().ok_or_else(|| Failure::run("this user has no home; set HOME"))?;
            fathom_host::answer(&home, std::io::stdin(), &mut std::io::stdout().lock())
                .map(ExitCode::from)
                .map_err(|e| Failure::run(format!("cannot answer: {e}")))
        }
        Role::Supervise { directory, limit_s, argv } => {
            fathom_host::supervise(directory, limit_s, &argv).map(|()| ExitCode::SUCCESS).map_err(failed)
        }
        Role::Become { directory, supervisor, argv } => {
            Err(failed(fathom_host::become_program(directory, supervisor, &argv)))
        }
    }
}
