//! Versions of libraries.

use std::fmt;
use std::str::FromStr;

/// `6.2.1`; what is left out is 0, and what stands behind a `-` or `+` is passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32, pub u32);

/// Before every version in which a default changed.
pub(crate) const FIRST: Version = Version(0, 0, 0);

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "write a version as in 6.2.1".to_owned();
        let plain = text.trim().trim_start_matches('v').split(['-', '+']).next().unwrap_or_default();
        let mut parts = [0; 3];
        for (at, part) in plain.split('.').enumerate() {
            *parts.get_mut(at).ok_or_else(wrong)? = part.parse().map_err(|_| wrong())?;
        }
        Ok(Self(parts[0], parts[1], parts[2]))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_as_people_write_them() {
        for (text, version) in
            [("6", Version(6, 0, 0)), ("v5.9.2", Version(5, 9, 2)), ("7.1.0-preview2", Version(7, 1, 0))]
        {
            assert_eq!(text.parse(), Ok(version));
        }
        for text in ["", "x", "1.2.3.4", "1..2", "-1"] {
            assert!(text.parse::<Version>().is_err(), "{text}");
        }
        assert!(Version(6, 10, 0) > Version(6, 2, 1));
    }
}
