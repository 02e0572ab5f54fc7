//! The command line of this process as its recordings keep it: to be run again, and without secrets.

/// Options whose values may hold a secret (a header with a token, say): their values are left out.
const SECRET: [&str; 2] = ["--key", "--on-event"];
/// Stands for what is left out.
const LEFT_OUT: &str = "LEFT-OUT";

/// This process's command line, quoted for a shell.
pub(crate) fn to_run_again() -> String {
    // By whatever path it was run here: that is of no use elsewhere.
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    std::iter::once("fathom".to_owned()).chain(shown(words)).collect::<Vec<_>>().join(" ")
}

fn shown(words: impl Iterator<Item = String>) -> impl Iterator<Item = String> {
    let mut before_is_secret = false;
    words.map(move |word| {
        if std::mem::take(&mut before_is_secret) {
            return LEFT_OUT.to_owned();
        }
        before_is_secret = SECRET.contains(&word.as_str());
        match word.split_once('=') {
            Some((option, _)) if SECRET.contains(&option) => quoted(&format!("{option}={LEFT_OUT}")),
            _ => quoted(&without_login(&word)),
        }
    })
}

/// The name and password of a URL are left out.
fn without_login(word: &str) -> String {
    if let Some((scheme, rest)) = word.split_once("://") {
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if let Some((_, host)) = authority.rsplit_once('@') {
            return format!("{scheme}://{LEFT_OUT}@{host}{path}");
        }
    }
    word.to_owned()
}

/// What is said of a command line, without the passwords of URLs in it: whoever reads the log of a job is told none.
pub(crate) fn without_passwords(text: &str) -> String {
    let ends = |c: char| c.is_whitespace() || "'\"`".contains(c);
    let words = text.split_inclusive(ends).map(|word| {
        let begins = word.find("://").map_or(0, |at| at + 3);
        match (word[begins..].find(':'), word.rfind('@')) {
            (Some(colon), Some(at)) if begins + colon < at => {
                format!("{}{LEFT_OUT}{}", &word[..=begins + colon], &word[at..])
            }
            _ => word.to_owned(),
        }
    });
    words.collect()
}

/// A word as a POSIX shell reads it back.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "@%+=:,./_-".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &[&str]) -> String {
        shown(words.iter().map(|word| (*word).to_owned())).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn url_password_with_any_character_is_hidden() {
        for secret in ["pw", "p/w", "p@w", "p:w"] {
            let said = without_passwords(&format!(
                "error: unexpected argument 'postgres://me:{secret}@h:1/db' found\n"
            ));
            assert_eq!(said, "error: unexpected argument 'postgres://me:LEFT-OUT@h:1/db' found\n");
            assert_eq!(without_passwords(&format!("as in me:{secret}@h:7")), "as in me:LEFT-OUT@h:7");
        }
        for plain in ["postgres://me@h:1/db", "[::1]:7 is none", "a: b@c", "--listen tcp://10.0.0.4:7007"] {
            assert_eq!(without_passwords(plain), plain);
        }
    }

    #[test]
    fn a_shell_reads_the_same_words() {
        let words = [
            "probe",
            "[::1]:7",
            "--tag",
            "a b=it's $HOME",
            "",
            "--label",
            "a\nb",
            "*",
            "zürich",
            "`id`",
            "!x",
        ];
        let script = format!("for word in {}; do printf '%s\\0' \"$word\"; done", line(&words));
        let out = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        let read = String::from_utf8(out.stdout).unwrap();
        assert_eq!(read.split_terminator('\0').collect::<Vec<_>>(), words);
        assert_eq!(line(&["db1:7", "--every", "100ms"]), "db1:7 --every 100ms");
    }

    #[test]
    fn secrets_stay_out() {
        let words = [
            "--on-event",
            "curl -H 'Authorization: s3cret'",
            "--key=s3cret",
            "--key",
            "s3cret",
            "h",
            "--label",
            "x",
        ];
        assert_eq!(line(&words), "--on-event LEFT-OUT --key=LEFT-OUT --key LEFT-OUT h --label x");
        let url = ["--metadata-url=http://me:s3cret@10.0.0.1:80/a@b", "http://h/a@b"];
        assert_eq!(line(&url), "--metadata-url=http://LEFT-OUT@10.0.0.1:80/a@b http://h/a@b");
    }
}
