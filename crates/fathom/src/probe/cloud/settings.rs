//! What the user says about the cloud.

use crate::exit::Failure;
use std::time::Duration;

/// Where every cloud's metadata service is: a link-local address that no router passes on.
pub(crate) const METADATA_URL: &str = "http://169.254.169.254";
/// No service is asked for maintenance more often than this (Azure: "poll at 1 Hz at most").
const SHORTEST_EVERY: Duration = Duration::from_secs(1);

/// Which cloud's metadata service to watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Choice {
    /// Look which, in the background
    #[default]
    Auto,
    /// Azure Scheduled Events
    Azure,
    /// AWS `IMDSv2`
    Aws,
    /// The metadata server of GCP
    Gcp,
    /// None
    Off,
}

/// How to watch, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) choice: Choice,
    /// Scheme, host and port, without a slash at the end.
    pub(crate) url: String,
    /// From look to look; `None`: as suits the cloud.
    pub(crate) every: Option<Duration>,
    /// Names of the tags that may be recorded.
    pub(crate) tags: Vec<String>,
}

impl Settings {
    /// Checks what was typed.
    pub(crate) fn new(
        choice: Choice,
        url: Option<String>,
        every: Option<Duration>,
        tags: Vec<String>,
    ) -> Result<Self, Failure> {
        if let Some(every) = every.filter(|every| *every < SHORTEST_EVERY) {
            return Err(Failure::usage(format!(
                "--cloud-every {every:?}: metadata services are to be asked once a second at most; the shortest is 1s"
            )));
        }
        let url = url.unwrap_or_else(|| METADATA_URL.to_owned());
        let url = url.trim_end_matches('/');
        if !is_host_and_port(url) {
            return Err(Failure::usage(format!(
                "--metadata-url {url}: write it as in http://127.0.0.1:8080, without TLS and without a path"
            )));
        }
        Ok(Self { choice, url: url.to_owned(), every, tags })
    }
}

/// `http://HOST` or `http://HOST:PORT`, and nothing behind it: what is asked there is the business of the protocol.
fn is_host_and_port(url: &str) -> bool {
    let Some(host) = url.strip_prefix("http://") else { return false };
    let after_address = host.rsplit_once(']').map_or(host, |(_, rest)| rest);
    let port = after_address.split_once(':').map(|(_, port)| port);
    !host.is_empty()
        && !host.contains(['/', '?', '#', '@'])
        && url.parse::<ureq::http::Uri>().is_ok()
        && port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(url: &str, every: Option<Duration>) -> Result<Settings, String> {
        Settings::new(Choice::Auto, Some(url.to_owned()), every, Vec::new()).map_err(|e| e.to_string())
    }

    #[test]
    fn the_metadata_service_is_a_host_and_a_port() {
        for (text, url) in
            [("http://127.0.0.1:80/", "http://127.0.0.1:80"), ("http://[::1]:8080", "http://[::1]:8080")]
        {
            assert_eq!(settings(text, None).unwrap().url, url);
        }
        for text in ["https://h", "h:80", "http://", "http://h/path", "http://u:p@h", "http://h:port", ""] {
            assert!(settings(text, None).unwrap_err().contains("as in"), "{text}");
        }
    }

    #[test]
    fn nobody_is_asked_more_than_once_a_second() {
        assert!(settings(METADATA_URL, Some(Duration::from_millis(999))).unwrap_err().contains("1s"));
        assert!(settings(METADATA_URL, Some(Duration::from_secs(1))).is_ok());
    }
}
