//! What the user says about the cloud.

use std::str::FromStr;
use std::time::Duration;

/// Where every cloud's metadata service is: a link-local address that no router passes on.
const METADATA_URL: &str = "http://169.254.169.254";
/// No service is asked for maintenance more often than this (Azure: "poll at 1 Hz at most").
const SHORTEST_EVERY: Duration = Duration::from_secs(1);

/// Which cloud's metadata service to watch. Its words are those of `--cloud`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Choice {
    /// Look which, in the background.
    #[default]
    Auto,
    /// Azure Scheduled Events.
    Azure,
    /// AWS `IMDSv2`.
    Aws,
    /// The metadata server of GCP.
    Gcp,
    /// None.
    Off,
}

impl Choice {
    const ALL: [(&str, Self); 5] = [
        ("auto", Self::Auto),
        ("azure", Self::Azure),
        ("aws", Self::Aws),
        ("gcp", Self::Gcp),
        ("off", Self::Off),
    ];

    /// The word for it.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, choice)| *choice == self).map_or("auto", |(name, _)| name)
    }
}

impl FromStr for Choice {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<Self, SettingsError> {
        let named = Self::ALL.iter().find(|(name, _)| *name == text);
        named.map(|(_, choice)| *choice).ok_or(SettingsError::Choice)
    }
}

/// What of the settings cannot be, and how to mend it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// No cloud has that name.
    #[error("write azure, aws, gcp, off, or auto to look which")]
    Choice,
    /// Asked for more often than the services allow.
    #[error(
        "--cloud-every {0:?}: metadata services are to be asked once a second at most; the shortest is 1s"
    )]
    Every(Duration),
    /// More or less than a host and a port.
    #[error("--metadata-url {0}: write it as in http://127.0.0.1:8080, without TLS and without a path")]
    Url(String),
}

/// How to watch, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub(crate) choice: Choice,
    /// Scheme, host and port, without a slash at the end.
    pub(crate) url: String,
    /// From look to look; `None`: as suits the cloud.
    pub(crate) every: Option<Duration>,
    /// Names of the tags that may be recorded.
    pub(crate) tags: Vec<String>,
}

impl Settings {
    /// Checks what was typed. Without a URL the service is where the clouds have it.
    pub fn new(
        choice: Choice,
        url: Option<String>,
        every: Option<Duration>,
        tags: Vec<String>,
    ) -> Result<Self, SettingsError> {
        if let Some(every) = every.filter(|every| *every < SHORTEST_EVERY) {
            return Err(SettingsError::Every(every));
        }
        let url = url.unwrap_or_else(|| METADATA_URL.to_owned());
        let url = url.trim_end_matches('/');
        if !is_host_and_port(url) {
            return Err(SettingsError::Url(url.to_owned()));
        }
        Ok(Self { choice, url: url.to_owned(), every, tags })
    }

    /// Whose service to watch.
    pub fn choice(&self) -> Choice {
        self.choice
    }

    /// Where the service is: scheme, host and port.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// From one look to the next; `None`: as suits the cloud.
    pub fn every(&self) -> Option<Duration> {
        self.every
    }

    /// Names of the tags that may be recorded.
    pub fn tags(&self) -> &[String] {
        &self.tags
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
    fn metadata_service_is_host_and_port() {
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
    fn interval_below_one_second_is_refused() {
        assert!(settings(METADATA_URL, Some(Duration::from_millis(999))).unwrap_err().contains("1s"));
        assert!(settings(METADATA_URL, Some(Duration::from_secs(1))).is_ok());
    }

    #[test]
    fn a_choice_is_written_as_it_is_read() {
        for (name, choice) in Choice::ALL {
            assert_eq!((name.parse(), choice.name()), (Ok(choice), name));
        }
        assert!("Azure".parse::<Choice>().unwrap_err().to_string().contains("gcp"));
    }
}
