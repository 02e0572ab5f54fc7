//! Reading POLICY.toml.

use fathom_core::policy::{Policy, PolicyError};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

/// A longer file is no policy.
const LONGEST: u64 = 1 << 20;

/// Reads a policy from a file. Whatever is wrong is one line with file, line, column and remedy.
pub fn read_policy(file: &Path) -> Result<Policy, PolicyError> {
    let name = file.display().to_string();
    let mut bytes = Vec::new();
    let read = File::open(file).and_then(|file| file.take(LONGEST + 1).read_to_end(&mut bytes));
    let wrong = |message: String| PolicyError { file: name.clone(), line: 1, column: 1, message };
    read.map_err(|e| {
        wrong(match e.kind() {
            ErrorKind::NotFound => "there is no such file; name one that is there".to_owned(),
            ErrorKind::IsADirectory => "this is a directory; name a file in it".to_owned(),
            ErrorKind::PermissionDenied => "you may not read it; let its owner allow that (chmod)".to_owned(),
            _ => format!("it cannot be read: {e}; name another"),
        })
    })?;
    if bytes.len() as u64 > LONGEST {
        return Err(wrong("it is longer than 1 MiB, which no policy is; name another".to_owned()));
    }
    Policy::read(&name, &bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The line had neither place nor remedy.
    #[test]
    fn unreadable_policy_error_has_place_and_remedy() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let wrong = |file: &Path| read_policy(file).expect_err("wrong").to_string();
        let none = here.join("none.toml");
        let absent = wrong(&none);
        assert_eq!(absent, format!("{}:1:1: there is no such file; name one that is there", none.display()));
        let directory = wrong(here);
        assert!(directory.ends_with(":1:1: this is a directory; name a file in it"), "{directory}");
        #[cfg(unix)]
        assert!(wrong(Path::new("/dev/zero")).contains(":1:1: it is longer than 1 MiB"));
    }
}
