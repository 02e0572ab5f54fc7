//! `-h` in one screen: of a command with many options those that most people need; `--help` has all of them. Both are
//! laid out for a terminal of eighty columns and more.

use clap::Command;
use clap::builder::StyledStr;
use fathom_core::text;

/// What `-h` shows of a command that has more options than a screen has lines.
const COMMON: &[(&str, &[&str], &str)] = &[
    (
        "probe",
        &[
            "targets",
            "every",
            "size",
            "count",
            "duration",
            "connections",
            "ping_pong",
            "udp",
            "connect",
            "label",
            "record",
            "plain",
            "quiet",
            "json",
            "help",
        ],
        "\
Examples:
  fathom probe 10.0.0.4                    once a second until Ctrl-C, recorded under ./recordings
  fathom probe db1:5432 --connect          how long a new connection to any listening port takes
  fathom probe a b --every 100ms --for 1h  two paths at the same moments

`fathom probe --help` has every option (load, TLS, throughput, profiles, stamps) and more examples.",
    ),
    (
        "echo",
        &[
            "listen",
            "tcp_only",
            "udp_only",
            "allow",
            "max_connections",
            "idle_timeout",
            "run_for",
            "json",
            "help",
        ],
        "\
Examples:
  fathom echo                              TCP and UDP on port 7007 of every address
  fathom echo --allow 10.0.0.0/8           answer the virtual network only

`fathom echo --help` has every option (STAMP, throughput tests, pinning) and more examples.",
    ),
];

/// Leaves out of `-h` what only `--help` shall show.
pub(super) fn shorten(mut cli: Command) -> Command {
    for (command, common, examples) in COMMON {
        cli = cli.mut_subcommand(command, |c| {
            let long = c.get_after_help().cloned().unwrap_or_default();
            let hide = |a: clap::Arg| {
                let hidden = !common.contains(&a.get_id().as_str());
                a.hide_short_help(hidden)
            };
            c.mut_args(hide).after_help(*examples).after_long_help(long)
        });
    }
    laid_out(cli)
}

/// A terminal has so many columns at the least.
const COLUMNS: usize = 80;

/// Lays out the text below the options of each command for such a terminal.
pub(super) fn laid_out(command: Command) -> Command {
    let text = |styled: Option<&StyledStr>| styled.map(|s| text::laid_out(&s.to_string(), COLUMNS));
    let (short, long) = (text(command.get_after_help()), text(command.get_after_long_help()));
    let command = short.into_iter().fold(command, Command::after_help);
    long.into_iter().fold(command, Command::after_long_help).mut_subcommands(laid_out)
}

#[cfg(test)]
mod tests {
    use super::super::Cli;
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn a_screen_shows_it() {
        for (command, common, _) in COMMON {
            let mut cli = shorten(Cli::command()).term_width(80);
            cli.build();
            let of = cli.find_subcommand_mut(command).expect("a command of ours");
            for id in *common {
                assert!(of.get_arguments().any(|a| a.get_id() == id), "{command} has no {id}");
            }
            let (short, long) = (of.render_help().to_string(), of.render_long_help().to_string());
            assert!(short.lines().count() <= 50, "{} lines:\n{short}", short.lines().count());
            assert!(long.lines().count() > 2 * short.lines().count() && long.contains("Examples:"), "{long}");
        }
    }

    /// "fathom probe THERE measure once a second": the words followed the command without a gap.
    #[test]
    fn examples_keep_the_gap_before_words() {
        fn check(command: &Command, seen: &mut usize) {
            for help in [command.get_after_help(), command.get_after_long_help()].into_iter().flatten() {
                let shown = text::laid_out(&help.to_string(), COLUMNS);
                for line in help.to_string().lines().filter(|line| line.starts_with("  ")) {
                    let Some((example, words)) = line.rsplit_once("  ") else { continue };
                    let first = words.split(' ').next().unwrap_or_default();
                    assert!(shown.contains(&format!("{example}  {first}")), "{line}\n{shown}");
                    *seen += 1;
                }
            }
            command.get_subcommands().for_each(|below| check(below, seen));
        }
        let mut seen = 0;
        check(&Cli::command(), &mut seen);
        assert!(seen > 30, "{seen}");
    }

    /// "What to send" had 93 lines.
    #[test]
    fn probe_help_groups_fit_one_screen() {
        let mut cli = shorten(Cli::command()).term_width(100);
        cli.build();
        let long =
            cli.find_subcommand_mut("probe").expect("a command of ours").render_long_help().to_string();
        let mut groups: Vec<(&str, usize)> = Vec::new();
        for line in long.lines() {
            match groups.last_mut() {
                _ if line.ends_with(':') && !line.starts_with(' ') => groups.push((line, 0)),
                Some((_, lines)) => *lines += 1,
                None => {}
            }
        }
        assert!(groups.len() > 10, "{groups:?}");
        assert!(groups.iter().all(|(_, lines)| *lines < 50), "{groups:?}");
    }

    /// "not back at the end (--connect: the last two or more samples were refused), or", and below it "the recording
    /// stopped, 2 the command line": at 80 columns sentences broke where the source's lines end.
    #[test]
    fn help_sentences_stay_on_one_line() {
        fn check(command: &mut Command, path: &str) {
            for help in [command.get_after_help(), command.get_after_long_help()].into_iter().flatten() {
                let text = help.to_string();
                let lines: Vec<&str> = text.lines().collect();
                for line in &lines {
                    let fits = line.chars().count() <= COLUMNS || !line.starts_with(' ');
                    assert!(fits, "{path}: an example is wider than {COLUMNS} columns: {line}");
                }
                for pair in lines.windows(2) {
                    let is_prose = |line: &str| !line.is_empty() && !line.starts_with(' ');
                    let goes_on = is_prose(pair[0]) && is_prose(pair[1]) && !pair[0].ends_with(':');
                    assert!(!goes_on, "{path}: one paragraph in two lines: {pair:?}");
                }
            }
            let names: Vec<String> = command.get_subcommands().map(|c| c.get_name().to_owned()).collect();
            for name in names {
                check(command.find_subcommand_mut(&name).expect("it is there"), &format!("{path} {name}"));
            }
        }
        check(&mut shorten(Cli::command()), "fathom");
    }
}
