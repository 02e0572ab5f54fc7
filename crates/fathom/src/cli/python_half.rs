//! The Python half's commands as clap commands, for manual pages and completions, which are built without Python.
//! `scripts/python-options.py` writes the file.

use clap::{Arg, ArgAction, Command, ValueHint};
use serde::Deserialize;
use std::ffi::OsString;

const FILE: &str = include_str!("python_half.json");

#[derive(Debug, Deserialize)]
struct Definition {
    name: String,
    about: String,
    /// Examples and exit codes.
    notes: String,
    arguments: Vec<Operand>,
    options: Vec<Opt>,
    commands: Vec<Self>,
}

#[derive(Debug, Deserialize)]
struct Operand {
    name: String,
    required: bool,
    many: bool,
    help: String,
}

#[derive(Debug, Deserialize)]
struct Opt {
    long: String,
    short: Option<char>,
    /// `None`: a flag.
    value: Option<String>,
    many: bool,
    help: String,
}

fn definitions() -> Vec<Definition> {
    serde_json::from_str(FILE).expect("a test reads the file that is compiled in")
}

/// clap keeps names for as long as the program runs.
fn kept(name: String) -> &'static str {
    Box::leak(name.into_boxed_str())
}

impl From<Definition> for Command {
    fn from(of: Definition) -> Self {
        let command = Self::new(kept(of.name)).about(of.about).after_help(of.notes);
        let operands = of.arguments.into_iter().map(|operand| {
            let name = kept(operand.name);
            let action = if operand.many { ArgAction::Append } else { ArgAction::Set };
            // The usage puts dots behind the name itself.
            let shown = name.trim_end_matches('.');
            let arg =
                Arg::new(name).value_name(shown).required(operand.required).action(action).help(operand.help);
            if operand.many { arg.num_args(1..) } else { arg }.value_hint(ValueHint::AnyPath)
        });
        let options = of.options.into_iter().map(|option| {
            let long = kept(option.long);
            let arg = option.short.into_iter().fold(Arg::new(long).long(long), Arg::short).help(option.help);
            let action = if option.many { ArgAction::Append } else { ArgAction::Set };
            match option.value {
                None => arg.action(ArgAction::SetTrue),
                Some(value) => {
                    let hint = if value.contains("DIR") { ValueHint::DirPath } else { ValueHint::AnyPath };
                    arg.action(action).value_name(kept(value)).value_hint(hint)
                }
            }
        });
        let below = of.commands.into_iter().map(Self::from);
        let subcommands = below.collect::<Vec<_>>();
        let wants_one = !subcommands.is_empty();
        command
            .args(operands)
            .args(options.collect::<Vec<_>>())
            .subcommands(subcommands)
            .subcommand_required(wants_one)
    }
}

/// All commands, with those of the Python half in full.
pub(super) fn in_full(commands: impl Iterator<Item = Command>) -> Vec<Command> {
    let mut known: Vec<Command> = definitions().into_iter().map(Command::from).collect();
    let full = commands.map(|command| match known.iter().position(|k| k.get_name() == command.get_name()) {
        Some(at) => known.swap_remove(at),
        None => command,
    });
    full.collect()
}

/// Turns `help report` into `report --help`, which the Python half answers; other words stay as they are.
pub(super) fn asked_for_help(words: Vec<OsString>) -> Vec<OsString> {
    let is_python = |name: &OsString| definitions().iter().any(|of| name == of.name.as_str());
    match words.as_slice() {
        [help, name, ..] if help == "help" && is_python(name) => {
            words.into_iter().skip(1).chain(["--help".into()]).collect()
        }
        _ => words,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Cli;
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn handed_over_commands_are_all_known() {
        let cli = Cli::command();
        let is_handed_over = |c: &&Command| c.is_disable_help_flag_set();
        let handed: Vec<&str> = cli.get_subcommands().filter(is_handed_over).map(Command::get_name).collect();
        assert!(handed.len() >= 9, "{handed:?}");
        for name in &handed {
            let known = definitions().into_iter().find(|of| of.name == *name).expect(name);
            assert!(!known.about.is_empty() && known.options.len() + known.commands.len() > 0, "{name}");
            Command::from(known).debug_assert();
        }
        assert_eq!(definitions().len(), handed.len());
    }

    #[test]
    fn help_of_python_command_is_handed_over() {
        let words = |line: &str| line.split_whitespace().map(OsString::from).collect::<Vec<_>>();
        for (line, asked) in [
            ("help report", "report --help"),
            ("help study run", "study run --help"),
            ("help probe", "help probe"),
            ("help", "help"),
            ("report help", "report help"),
        ] {
            assert_eq!(asked_for_help(words(line)), words(asked), "{line}");
        }
    }
}
