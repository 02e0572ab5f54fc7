//! What a study's runner may ask, and which names it may use. Every name becomes one of a directory, so it is on a
//! whitelist: letters, digits and few signs, none of which is a separator.

use crate::error::Error;
use serde::{Deserialize, Deserializer, de};
use std::fmt;
use std::str::FromStr;

/// The version of the protocol.
pub(crate) const FORMAT: u32 = 1;
/// A request is a line of at most so many bytes.
pub(crate) const LONGEST_REQUEST: u64 = 256 << 10;
/// A file's name has at most so many bytes (`NAME_MAX`, limits.h of Linux).
const NAME_MAX: usize = 255;

/// A request.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    pub(crate) format: u32,
    pub(crate) study: StudyName,
    pub(crate) host: HostName,
    pub(crate) ask: Ask,
}

/// What is asked.
#[derive(Debug, Deserialize)]
#[serde(tag = "verb", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Ask {
    Hello {},
    Start {
        job: JobName,
        limit_s: u64,
        argv: Vec<String>,
    },
    Look {
        job: JobName,
        budget: u64,
        #[serde(default)]
        want: Vec<(FileName, u64)>,
    },
    Said {
        job: JobName,
    },
    Sums {
        job: JobName,
    },
    Drop {
        job: JobName,
    },
    Clear {},
}

/// Reads a request.
pub(crate) fn read(line: &[u8]) -> Result<Request, Error> {
    let request: Request = serde_json::from_slice(line).map_err(|e| Error::Request(e.to_string()))?;
    if request.format != FORMAT {
        let ours = format!("it is of format {}, and this fathom answers format {FORMAT}", request.format);
        return Err(Error::Request(ours));
    }
    Ok(request)
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $what:literal, $most:expr, $signs:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub(crate) struct $type(String);

        impl $type {
            /// The name as it was given.
            pub(crate) fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let bytes = text.as_bytes();
                let fits = |b: &u8| b.is_ascii_alphanumeric() || $signs.contains(b);
                let begins = bytes.first().is_some_and(u8::is_ascii_alphanumeric);
                if begins && bytes.len() <= $most && bytes.iter().all(fits) {
                    Ok(Self(text.to_owned()))
                } else {
                    Err(format!("{text:?} is no name of {}", $what))
                }
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }
    };
}

name!(
    /// A study's id.
    StudyName, "a study", 64, b""
);
name!(
    /// A host's name in its study.
    HostName, "a host", 64, b"_.-"
);
name!(
    /// A job's name: a run's or a reflector's.
    JobName, "a job", NAME_MAX, b"_.,=-"
);
name!(
    /// A file of a recording.
    FileName, "a recording's file", 64, b"_.-"
);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_on_a_whitelist() {
        for name in ["label=a-b,probe=p_1,size=64,run=01", "reflector-tcp-7007", "0"] {
            assert_eq!(name.parse::<JobName>().unwrap().as_str(), name);
        }
        for name in [
            "",
            ".",
            "..",
            "../x",
            "/etc",
            "a/b",
            ".lock",
            "a\nb",
            "a\0",
            "-rf",
            "a b",
            "é",
            &"a".repeat(256),
        ] {
            assert!(name.parse::<JobName>().is_err(), "{name:?}");
            assert!(name.parse::<FileName>().is_err(), "{name:?}");
            assert!(name.parse::<HostName>().is_err(), "{name:?}");
            assert!(name.parse::<StudyName>().is_err(), "{name:?}");
        }
    }

    #[test]
    fn only_documented_requests_are_accepted() {
        let read = |ask: &str| {
            read(format!(r#"{{"format":1,"study":"ab12","host":"vm-1","ask":{ask}}}"#).as_bytes())
        };
        let look = read(r#"{"verb":"look","job":"run","budget":7,"want":[["events.jsonl",3]]}"#).unwrap();
        assert!(
            matches!(look.ask, Ask::Look { budget: 7, want, .. } if want[0].0.as_str() == "events.jsonl" && want[0].1 == 3)
        );
        assert!(matches!(read(r#"{"verb":"hello"}"#).unwrap().ask, Ask::Hello {}));
        for wrong in [
            r#"{"verb":"hello","more":1}"#,
            r#"{"verb":"rm"}"#,
            r#"{"verb":"drop","job":"../other"}"#,
            r#"{"verb":"look","job":"run","budget":-1}"#,
            r#"{"verb":"look","job":"run","budget":1,"want":[["../../.ssh/id",0]]}"#,
            r#"{"verb":"start","job":"run","limit_s":1}"#,
        ] {
            assert_eq!(read(wrong).unwrap_err().code(), 2, "{wrong}");
        }
        let newer =
            super::read(br#"{"format":2,"study":"a","host":"b","ask":{"verb":"hello"}}"#).unwrap_err();
        assert!(newer.to_string().contains("format 2"), "{newer}");
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes);
        }

        #[test]
        fn a_name_is_one_step_down(text in any::<String>()) {
            if let Ok(name) = text.parse::<JobName>() {
                let mut parts = std::path::Path::new(name.as_str()).components();
                prop_assert!(matches!(parts.next(), Some(std::path::Component::Normal(_))));
                prop_assert!(parts.next().is_none());
            }
        }
    }
}
