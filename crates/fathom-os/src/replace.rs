//! Files that are replaced in one step: a reader sees the old one or the new one, whole.
//!
//! The new file gets a random name, and is created only if that name is free. So a link that another account planted in
//! the directory has no effect.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Maximum number of names to try. A name is taken with a chance of one in 2^64.
const TRIES: usize = 3;
/// Maximum number of links in a row, as in the kernel.
const LINKS: usize = 40;

/// Replaces a file. `mode`: permissions of a new file, before the process's umask. A link of this account or of root
/// stays, and its target is replaced; any other link is an error.
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let place = place(path)?;
    let (temporary, mut file) = create_beside(&place, mode)?;
    let written = file.write_all(bytes).and_then(|()| fs::rename(&temporary, &place));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn create_beside(place: &Path, mode: u32) -> io::Result<(PathBuf, File)> {
    let name = place.file_name().ok_or_else(|| io::Error::other("it names no file"))?.to_string_lossy();
    let mut tries = 0;
    loop {
        let random = RandomState::new().build_hasher().finish();
        let temporary = place.with_file_name(format!(".{name}.{random:016x}.tmp"));
        tries += 1;
        match create(&temporary, mode) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists && tries < TRIES => {}
            made => return made.map(|file| (temporary, file)),
        }
    }
}

/// Creates a new file; an existing file or link of that name is an error.
pub fn create(path: &Path, mode: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    #[cfg(not(unix))]
    let _ = mode;
    options.open(path)
}

/// The path with its links resolved.
fn place(path: &Path) -> io::Result<PathBuf> {
    let mut place = path.to_owned();
    for _ in 0..LINKS {
        match fs::symlink_metadata(&place) {
            Ok(there) if there.is_symlink() => {
                if !is_trusted(&there) {
                    return Err(io::Error::other(format!(
                        "{} is a link of another account",
                        place.display()
                    )));
                }
                let to = fs::read_link(&place)?;
                place = place.parent().map_or_else(|| to.clone(), |parent| parent.join(&to));
            }
            Ok(there) if !there.is_file() => return Err(io::Error::other("it is no regular file")),
            _ => return Ok(place),
        }
    }
    Err(io::Error::other("its links lead to each other"))
}

/// True for a link of this account or of root.
fn is_trusted(link: &fs::Metadata) -> bool {
    #[cfg(unix)]
    {
        let owner = std::os::unix::fs::MetadataExt::uid(link);
        owner == 0 || owner == rustix::process::geteuid().as_raw()
    }
    #[cfg(not(unix))]
    {
        let _ = link;
        true
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};

    #[test]
    fn replaced_file_is_whole_and_leaves_nothing() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("file");
        for text in ["first", "second, and longer", "3"] {
            replace(&path, text.as_bytes(), 0o600).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
        assert!(replace(home.path(), b"", 0o600).is_err(), "a directory cannot be replaced");
        assert!(replace(&home.path().join("missing/file"), b"", 0o600).is_err());
    }

    #[test]
    fn own_link_stays_and_is_followed() {
        let home = tempfile::tempdir().unwrap();
        let (link, target) = (home.path().join("link"), home.path().join("target"));
        symlink("target", &link).unwrap();
        replace(&link, b"text", 0o600).unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "text");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        symlink("loop", home.path().join("loop")).unwrap();
        assert!(replace(&home.path().join("loop"), b"", 0o600).is_err());
    }

    /// Another account can plant a link in a directory that all may write to, such as /tmp.
    #[test]
    fn link_of_another_account_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let (link, precious) = (home.path().join("link"), home.path().join("precious"));
        fs::write(&precious, "untouched").unwrap();
        symlink(&precious, &link).unwrap();
        // Only root can make such a link.
        if rustix::process::geteuid().is_root() {
            lchown(&link, Some(65_534), None).unwrap();
            assert_eq!(fs::symlink_metadata(&link).unwrap().uid(), 65_534);
            assert!(replace(&link, b"", 0o600).is_err_and(|e| e.to_string().contains("another account")));
        }
        assert!(create(&link, 0o600).is_err_and(|e| e.kind() == ErrorKind::AlreadyExists));
        assert_eq!(fs::read_to_string(&precious).unwrap(), "untouched");
    }
}
