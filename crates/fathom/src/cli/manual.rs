//! Manual pages, one per command: the long help, with a text for every option.

use clap::Command;
use clap::builder::Resettable;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use std::io;
use std::path::Path;

/// Writes the pages of a command and of those below it.
pub(super) fn write(cli: Command, directory: &Path) -> io::Result<()> {
    let mut cli = cli.disable_help_subcommand(true);
    cli.build();
    each(&cli, directory)
}

fn each(command: &Command, directory: &Path) -> io::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        each(below, directory)?;
    }
    let (name, text) = page(command)?;
    std::fs::write(directory.join(name), text)
}

/// The name of a command's page, and the page.
fn page(command: &Command) -> io::Result<(String, Vec<u8>)> {
    let notes = command.get_after_long_help().or_else(|| command.get_after_help()).map(ToString::to_string);
    let bare = command.clone().after_help(Resettable::Reset).after_long_help(Resettable::Reset);
    let man = Man::new(bare);
    let mut text = Vec::new();
    man.render(&mut text)?;
    if let Some(notes) = notes.filter(|notes| !notes.is_empty()) {
        lines(&notes).to_writer(&mut text)?;
    }
    Ok((man.get_filename(), text))
}

/// Examples in lines of their own, and paragraphs that `man` fills.
fn lines(notes: &str) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["NOTES"]);
    let mut verbatim = false;
    for line in notes.lines() {
        let is_example = line.starts_with(' ');
        if is_example != verbatim && !line.is_empty() {
            roff.control(if is_example { "nf" } else { "fi" }, []);
            verbatim = is_example;
        }
        if line.is_empty() {
            roff.control("PP", []);
        } else {
            roff.text([roman(line)]);
        }
    }
    if verbatim {
        roff.control("fi", []);
    }
    roff
}

#[cfg(test)]
mod tests {
    use super::super::shell;
    use super::*;
    use clap::Arg;

    /// Of 83 options of `probe`, 64 had no text, because the page was made from the short help.
    #[test]
    fn every_option_has_words_in_its_page() {
        let mut pages = 0;
        let mut cli = shell::for_people();
        cli.build();
        check(&cli, &mut pages);
        assert!(pages > 40, "{pages}");
    }

    fn check(command: &Command, pages: &mut usize) {
        *pages += 1;
        let (name, text) = page(command).expect("a page");
        // roff has a backslash before dashes and dots, and escapes of its own for quotes.
        let plain = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).collect::<String>();
        let text = plain(
            &String::from_utf8(text)
                .expect("text")
                .replace("\\*(Aq", "")
                .replace("\\fR", "")
                .replace("\\fB", "")
                .replace("\\fI", ""),
        );
        for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
            let words = arg.get_long_help().or_else(|| arg.get_help()).map(ToString::to_string);
            let words = words.unwrap_or_else(|| panic!("{name}: {arg} has no words"));
            assert!(text.contains(&plain(&words)), "{name}: {arg}: {words}");
        }
        let notes = command.get_after_long_help().or_else(|| command.get_after_help());
        for line in notes.map(ToString::to_string).unwrap_or_default().lines() {
            assert!(text.contains(&plain(line)), "{name}: {line}");
        }
        command.get_subcommands().filter(|below| !below.is_hide_set()).for_each(|below| check(below, pages));
    }

    #[test]
    fn examples_keep_their_lines() {
        let command =
            Command::new("x").arg(Arg::new("y").help("z")).after_help("Examples:\n  x 1\n  x 2\n\nProse.");
        let text = String::from_utf8(page(&command).expect("a page").1).expect("text");
        assert!(text.ends_with("Examples:\n.nf\n  x 1\n  x 2\n.PP\n.fi\nProse.\n"), "{text}");
    }
}
