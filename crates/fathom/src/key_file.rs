//! `--key FILE`: the secret that probe and reflector share. It comes from a file, since others of this host see a command line.

use crate::exit::Failure;
use fathom_core::text::count;
use fathom_wire::Secret;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Fewer bytes could be guessed.
const LEAST: usize = 16;
const MOST: u64 = 4_096;
const MAKE: &str =
    "make one: (umask 077; head -c 32 /dev/urandom | base64 > FILE), and copy it to the other end";

/// Reads the secret: what stands in the file, without the end of its last line.
pub(crate) fn read(path: &Path) -> Result<Secret, Failure> {
    let bytes = content(path).map_err(|why| Failure::usage(format!("--key {}: {why}", path.display())))?;
    let end = bytes.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |at| at + 1);
    if end < LEAST {
        return Err(Failure::usage(format!(
            "--key {}: it holds {}, and fewer than {LEAST} could be guessed; {MAKE}",
            path.display(),
            count(end as u64, "byte")
        )));
    }
    Ok(Secret::new(&bytes[..end]))
}

fn content(path: &Path) -> Result<Vec<u8>, String> {
    // Looked at before it is opened: a pipe in its place would be waited for.
    let about = std::fs::metadata(path).map_err(|e| format!("{e}; {MAKE}"))?;
    if !about.is_file() {
        return Err(format!("it is no regular file; {MAKE}"));
    }
    #[cfg(unix)]
    if std::os::unix::fs::MetadataExt::mode(&about) & 0o077 != 0 {
        return Err(format!("others may read or write it; chmod 600 {}", path.display()));
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|e| e.to_string())?;
    file.take(MOST + 1).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    if bytes.len() as u64 > MOST {
        return Err(format!("it holds more than {MOST} bytes; {MAKE}"));
    }
    Ok(bytes)
}
