//! Options by the names that other tools have for them: what ours is called.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};
use std::any::TypeId;

/// An option as others write it, and what it is here, by command.
const ELSEWHERE: &[(&str, &[&str], &str)] = &[
    (
        "probe",
        &["-i", "--interval", "--period", "--wait"],
        "the time between samples is --every, as in --every 100ms",
    ),
    (
        "probe",
        &["-t", "-w", "--duration", "--time", "--deadline"],
        "the length of a run is --for, as in --for 10m",
    ),
    (
        "probe",
        &["-c", "-n", "--samples", "--number", "--requests"],
        "the number of samples is --count, as in --count 1000",
    ),
    (
        "probe",
        &["-s", "-l", "--msg-size", "--length", "--bytes"],
        "the bytes of a sample are --size, as in --size 1KiB",
    ),
    ("probe", &["-p", "--port"], "the port belongs to the target, as in HOST:7007"),
    (
        "probe",
        &["-P", "--parallel", "--clients"],
        "parallel connections are --connections, as in --connections 8",
    ),
    ("probe", &["-o", "--output", "--out"], "the recording goes where --record says, as in --record DIR"),
    ("probe", &["-R"], "the other way, in a throughput test, is --reverse"),
    ("probe", &["-u"], "datagrams are --udp"),
    ("probe", &["-j"], "the summary for machines is --json"),
    ("probe", &["-f", "--flood"], "back to back is --ping-pong"),
    ("echo", &["-p", "--port"], "the port is what it listens on: --listen 7007"),
    (
        "echo",
        &["-b", "--bind", "--address", "--host"],
        "the address is what it listens on: --listen 10.0.0.4:7007",
    ),
    ("echo", &["-t", "--time", "--duration"], "the length of a run is --for, as in --for 10m"),
    ("echo", &["-u", "--udp"], "it answers TCP and UDP; UDP alone is --udp-only"),
    ("echo", &["--tcp"], "it answers TCP and UDP; TCP alone is --tcp-only"),
    (
        "echo",
        &["-s", "--server", "-d", "-D", "--daemon"],
        "it is the server, and stays in the foreground; leave that out",
    ),
];

/// The line for somebody who knows another tool's name for an option of this command, or gives it a negative number, if
/// there is one. `words`: the command line, without the program's name.
pub(super) fn hint(cli: Command, words: &[String], error: &clap::Error) -> Option<String> {
    negative(cli, words, error).or_else(|| named_otherwise(words.first()?, error))
}

/// `--count -1`: "unexpected argument '-1'", and how to give it to a target.
fn negative(mut cli: Command, words: &[String], error: &clap::Error) -> Option<String> {
    let string = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let is_negative = |text: &str| text.strip_prefix('-').is_some_and(|n| n.parse::<f64>().is_ok());
    let (option, number) = match error.kind() {
        ErrorKind::UnknownArgument => {
            let at = words.iter().position(|word| is_negative(word))?;
            (words.get(at.checked_sub(1)?).filter(|word| word.starts_with('-'))?.as_str(), words[at].as_str())
        }
        ErrorKind::ValueValidation => (string(ContextKind::InvalidArg)?, string(ContextKind::InvalidValue)?),
        _ => return None,
    };
    let option = option.split(' ').next().unwrap_or_default();
    // Other values say in their own words what they may be.
    let is_number = error.kind() != ErrorKind::ValueValidation || error.to_string().contains("invalid digit");
    (is_negative(number) && is_number).then(|| {
        let takes = if !takes_zero(cli.clone(), words, number) {
            "a positive number"
        } else if command_of(&mut cli, words)
            .get_arguments()
            .any(|arg| is_called(arg, option) && is_processor(arg))
        {
            "a processor's number, from 0 on"
        } else {
            "a number from 0 on"
        };
        format!("{option} takes {takes}, and {number} is negative")
    })
}

fn is_called(arg: &Arg, option: &str) -> bool {
    let names = arg.get_long_and_visible_aliases().unwrap_or_default();
    option.strip_prefix("--").is_some_and(|name| names.contains(&name))
}

/// Whether its value is the number of a processor, as all of this type are; other numbers have a width.
fn is_processor(arg: &Arg) -> bool {
    arg.get_value_parser().type_id() == TypeId::of::<usize>()
}

/// The command that the line names.
fn command_of<'a>(mut cli: &'a mut Command, words: &[String]) -> &'a mut Command {
    for word in words {
        if cli.find_subcommand(word).is_none() {
            break;
        }
        cli = cli.find_subcommand_mut(word).expect("it was there");
    }
    cli
}

/// Whether the option that was given this number takes 0: nothing is then said against 0 in the number's place.
fn takes_zero(cli: Command, words: &[String], number: &str) -> bool {
    let with_zero = |word: &String| match word.strip_suffix(number) {
        Some(before) if before.is_empty() || before.ends_with('=') => format!("{before}0"),
        _ => word.clone(),
    };
    let line = std::iter::once("fathom".to_owned()).chain(words.iter().map(with_zero));
    let zero = ContextValue::String("0".to_owned());
    let refuses_zero = |error: clap::Error| {
        error.kind() == ErrorKind::ValueValidation && error.get(ContextKind::InvalidValue) == Some(&zero)
    };
    !cli.try_get_matches_from(line).is_err_and(refuses_zero)
}

/// Leaves out of an error what would puzzle: its usage named the options that have a value from the environment, as if one
/// had to give them, and `--no-such` was said to be meant as a target.
pub(super) fn make_plain(error: &mut clap::Error, mut cli: Command, words: &[String]) {
    cli.build();
    let command = command_of(&mut cli, words);
    if error.get(ContextKind::Usage).is_some() {
        let usage = ContextValue::StyledStr(command.render_usage());
        error.insert(ContextKind::Usage, usage);
    }
    if error.kind() == ErrorKind::UnknownArgument
        && let Some(ContextValue::StyledStrs(tips)) = error.get(ContextKind::Suggested)
        && tips.iter().all(|tip| tip.to_string().contains("as a value"))
    {
        error.remove(ContextKind::Suggested);
    }
}

fn named_otherwise(command: &str, error: &clap::Error) -> Option<String> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else { return None };
    let name = option.split('=').next().unwrap_or_default();
    let known = ELSEWHERE.iter().find(|(of, names, _)| *of == command && names.contains(&name))?;
    Some(format!("{command} has no option {name}: {}", known.2))
}

#[cfg(test)]
mod tests {
    use super::super::Cli;
    use super::*;
    use clap::{CommandFactory, Parser};

    /// By its type an option is known to take a processor's number.
    #[test]
    fn a_value_of_this_type_is_a_processor() {
        fn look(command: &Command, seen: &mut usize) {
            for arg in command.get_arguments().filter(|arg| arg.get_long().is_some() && is_processor(arg)) {
                let help = arg.get_help().expect("it has a line").to_string();
                assert!(help.contains("this processor") || help.contains("this CPU"), "{arg}: {help}");
                *seen += 1;
            }
            command.get_subcommands().for_each(|command| look(command, seen));
        }
        let mut seen = 0;
        look(&Cli::command(), &mut seen);
        assert!(seen >= 3, "{seen}");
    }

    #[test]
    fn what_others_call_it_leads_to_ours() {
        for (command, names, told) in ELSEWHERE {
            for name in *names {
                let target: &[&str] = if *command == "probe" { &["HOST"] } else { &[] };
                let line = [&["fathom", command], target, &[name, "5"]].concat();
                let error = Cli::try_parse_from(line).expect_err(name);
                let said =
                    named_otherwise(command, &error).unwrap_or_else(|| panic!("{command} {name}: {error}"));
                assert!(said.ends_with(told), "{said}");
            }
            // What the line names exists.
            let options = told.split([' ', ',', ':']).filter(|word| word.starts_with("--"));
            let parser = Cli::command();
            let of = parser.find_subcommand(command).expect("a command of ours");
            for option in options {
                let found = of.get_arguments().any(|a| a.get_long() == option.strip_prefix("--"));
                assert!(found, "{command} {option}");
            }
        }
        let error = Cli::try_parse_from(["fathom", "probe", "HOST", "--no-such"]).expect_err("unknown");
        assert_eq!(named_otherwise("probe", &error), None);
    }
}
