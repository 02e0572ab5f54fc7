//! What a shell and `man` want to know of the command line, made from its definition.

use super::{Cli, manual, python_half, short};
use crate::exit::Failure;
use clap::{Command, CommandFactory};
use clap_complete::Shell;
use std::path::PathBuf;

/// Arguments of `fathom completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  fathom completions bash > ~/.local/share/bash-completion/completions/fathom
  fathom completions zsh > ~/.zfunc/_fathom
  fathom completions fish > ~/.config/fish/completions/fathom.fish")]
pub(super) struct CompletionsArgs {
    /// For which shell
    shell: Shell,
}

/// Arguments of `fathom man`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  sudo fathom man /usr/local/share/man/man1     then: man fathom-probe
  fathom man . && man ./fathom-probe.1")]
pub(super) struct ManArgs {
    /// Where the pages go, one a command
    directory: PathBuf,
}

/// All commands for users, in full; without `host`, which only a study's runner calls.
pub(super) fn for_people() -> Command {
    let all = short::laid_out(Cli::command());
    let shown = all.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    // A command gives none of its own away again.
    let mut few =
        Command::new("fathom").version(crate::version::VERSION).subcommands(python_half::in_full(shown));
    few = all.get_about().cloned().into_iter().fold(few, Command::about);
    all.get_after_help().cloned().into_iter().fold(few, Command::after_help)
}

/// Prints a shell's completions.
pub(super) fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut for_people(), "fathom", &mut text);
    crate::output::print("the completions", &String::from_utf8_lossy(&text)).map(drop)
}

/// Writes a manual page of each command.
pub(super) fn man(args: &ManArgs) -> Result<(), Failure> {
    manual::write(for_people(), &args.directory).map_err(|e| {
        let directory = args.directory.display();
        Failure::run(format!(
            "cannot write manual pages into {directory}: {e}; name a directory that is there"
        ))
    })
}
