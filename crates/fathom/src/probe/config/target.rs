//! What is measured: targets as people write them, and the labels of their paths.

use crate::exit::Failure;
use crate::probe::args::Args;
use fathom_core::host_port;
use fathom_core::text::count;
use fathom_reflector::DEFAULT_PORT;
use std::fmt;

/// A host and port, as the user named them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl Target {
    pub(crate) fn parse(text: &str, default_port: Option<u16>) -> Result<Self, String> {
        let wrong = |what: &str| Err(format!("target {text}: {what}; write HOST, HOST:PORT or [IPV6]:PORT"));
        if let Some((scheme, rest)) = text.split_once("://") {
            let rest = rest.trim_end_matches('/');
            return Err(format!("target {text}: that is a URL; leave {scheme}:// out, as in {rest}"));
        }
        let (host, port) = host_port::split(text).or_else(|what| wrong(&what))?;
        let target = |port| Self { host: host.to_owned(), port };
        port.or(default_port).map(target).ok_or_else(|| {
            format!(
                "target {text}: --connect times connections to any listening port; name it, as in {}",
                target(443)
            )
        })
    }
}

/// One path to measure.
#[derive(Debug, Clone)]
pub(crate) struct Path {
    pub(crate) target: Target,
    pub(crate) label: String,
}

/// A label becomes the name of a recording's directory, with a time behind it; file systems take 255 bytes.
const LABEL_BYTES: usize = 200;

/// The paths that the arguments name.
pub(super) fn paths(args: &Args) -> Result<Vec<Path>, Failure> {
    let mut paths = Vec::with_capacity(args.targets.len());
    let port = match () {
        () if args.throughput.throughput => Some(fathom_iperf3::codec::PORT),
        () if args.stamp.reflector().is_some() => Some(fathom_wire::rfc8762::PORT),
        () if args.connect => None,
        () => Some(DEFAULT_PORT),
    };
    for (at, text) in args.targets.iter().enumerate() {
        if let Some(meant) = at.checked_sub(1).and_then(|before| with_port(&args.targets[before], text)) {
            return Err(Failure::usage(format!(
                "target {text}: a bare number is not a host; if it is a port, write {meant}"
            )));
        }
        let target = Target::parse(text, port).map_err(Failure::Usage)?;
        let label = match &args.label {
            Some(label) if args.targets.len() == 1 => label.clone(),
            Some(label) => format!("{label}-{target}"),
            None => unnamed(&target, port),
        };
        if label.len() > LABEL_BYTES {
            return Err(Failure::usage(format!(
                "a label of {} is too long for the name of a directory; give one of {} at most with --label",
                count(label.len() as u64, "byte"),
                count(LABEL_BYTES as u64, "byte")
            )));
        }
        paths.push(Path { target, label });
    }
    // Two paths to one host (other ports, or the same again) need labels of their own.
    let labels: Vec<String> = paths.iter().map(|p| p.label.clone()).collect();
    for (i, path) in paths.iter_mut().enumerate() {
        if labels.iter().filter(|label| **label == path.label).count() > 1 {
            path.label = format!("{}-{}", path.target, i + 1);
        }
    }
    Ok(paths)
}

/// `db1 7007`, as other tools have it: the host with the number as its port.
fn with_port(host: &str, number: &str) -> Option<Target> {
    let (host, port) = host_port::split(host).ok()?;
    let number = number.parse().ok().filter(|_| port.is_none())?;
    Some(Target { host: host.to_owned(), port: number })
}

/// A target without a label: its host, and its port where that is not the one that goes without saying. A host may have
/// another reflector, or another service, on each of its ports.
fn unnamed(target: &Target, default_port: Option<u16>) -> String {
    if default_port == Some(target.port) { target.host.clone() } else { target.to_string() }
}

#[cfg(test)]
mod tests {
    use super::super::from_line;
    use super::*;

    #[test]
    fn targets_get_the_default_port() {
        for (text, host, port) in
            [("db1", "db1", 7007), ("db1:7", "db1", 7), ("fe80::1%eth0", "fe80::1%eth0", 7007)]
        {
            let target = Target { host: host.into(), port };
            assert_eq!(Target::parse(text, Some(DEFAULT_PORT)), Ok(target), "{text}");
        }
        assert!(Target::parse("db", None).is_err_and(|e| e.contains("as in db:443")));
        assert!(Target::parse("::1", None).is_err_and(|e| e.contains("as in [::1]:443")));
        assert!(Target::parse("http://x", Some(DEFAULT_PORT)).is_err_and(|e| e.contains("leave http://")));
    }

    /// `probe db1 7007` measured 0.0.27.95.
    #[test]
    fn bare_number_is_no_target() {
        let refused = |line: &str| from_line(line).expect_err(line);
        assert!(refused("db1 7007").contains("write db1:7007"), "{}", refused("db1 7007"));
        assert!(refused("::1 7007").contains("write [::1]:7007"), "{}", refused("::1 7007"));
        for line in ["7007", "db1:7 7007", "db1 99999", "db1 0x7f000001"] {
            assert!(refused(line).contains("a bare number is not a host"), "{line}: {}", refused(line));
        }
    }

    #[test]
    fn a_label_fits_into_a_directory_s_name() {
        let labelled = |label: &str| from_line(&format!("a --label {label}"));
        assert!(labelled(&"x".repeat(LABEL_BYTES)).is_ok());
        for long in ["x".repeat(LABEL_BYTES + 1), "é".repeat(101)] {
            assert!(labelled(&long).is_err_and(|e| e.contains("--label")));
        }
    }

    #[test]
    fn paths_have_labels_of_their_own() {
        let labels =
            |line: &str| from_line(line).unwrap().paths.into_iter().map(|p| p.label).collect::<Vec<_>>();
        assert_eq!(labels("a b"), ["a", "b"]);
        assert_eq!(labels("a --label zone"), ["zone"]);
        assert_eq!(labels("a b --label zone"), ["zone-a:7007", "zone-b:7007"]);
        assert_eq!(labels("a:1 a:2 a"), ["a:1", "a:2", "a"]);
        assert_eq!(labels("a:1 a:1"), ["a:1-1", "a:1-2"]);
        assert_eq!(labels("a:7007 ::1 [::1]:7"), ["a", "::1", "[::1]:7"]);
        assert_eq!(labels("db:5432 --connect"), ["db:5432"]);
        assert_eq!(labels("a:862 b:863 --stamp"), ["a", "b:863"]);
    }
}
