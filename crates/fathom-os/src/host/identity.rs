//! Which host this is: its name, its time zone, and hashes of its ids.
//!
//! machine-id(5) calls the machine id confidential and asks programs to give away only a hash of it, keyed, and of their
//! own. The hash here is the one of `sd_id128_get_machine_app_specific(3)`: HMAC-SHA256 with the id as its key over an id
//! of this program, cut to 16 bytes and marked as a version 4 UUID. So who has the machine can find its recordings with
//! `systemd-id128 machine-id --app-specific=5f0d7c1e2b944a6e9d38c7a1e0b4f263`, and who has the recordings finds no machine.

use super::read;
use ring::hmac;
use std::path::Path;

/// Of this program, made once at random.
const APPLICATION: [u8; 16] =
    [0x5f, 0x0d, 0x7c, 0x1e, 0x2b, 0x94, 0x4a, 0x6e, 0x9d, 0x38, 0xc7, 0xa1, 0xe0, 0xb4, 0xf2, 0x63];

/// What the host calls itself.
pub(super) fn name() -> Option<String> {
    #[cfg(unix)]
    return rustix::system::uname().nodename().to_str().ok().filter(|n| !n.is_empty()).map(str::to_owned);
    #[cfg(not(unix))]
    std::env::var("COMPUTERNAME").ok()
}

/// The machine's id, hashed.
pub(super) fn machine() -> Option<String> {
    read("/etc/machine-id").as_deref().and_then(hashed)
}

/// The id that the kernel made at this boot, hashed.
pub(super) fn boot() -> Option<String> {
    read("/proc/sys/kernel/random/boot_id").as_deref().and_then(hashed)
}

/// The hash of an id of 32 hexadecimal digits, hyphens or not; none for anything else, as the `uninitialized` of an
/// image's first boot.
fn hashed(id: &str) -> Option<String> {
    let digits: Vec<u8> =
        id.chars().filter(|&c| c != '-').map(|c| c.to_digit(16).map(|d| d as u8)).collect::<Option<_>>()?;
    let key: Vec<u8> =
        digits.chunks(2).map(|two| two.iter().fold(0, |byte, digit| byte << 4 | digit)).collect();
    if digits.len() != 32 || key.iter().all(|&byte| byte == 0) {
        return None;
    }
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), &APPLICATION);
    let mut short = [0; 16];
    short.copy_from_slice(&tag.as_ref()[..16]);
    short[6] = short[6] & 0x0f | 0x40;
    short[8] = short[8] & 0x3f | 0x80;
    Some(format!("hmac-sha256:{:032x}", u128::from_be_bytes(short)))
}

/// The zone of the host's clocks: that of `TZ`, else what localtime(5) says.
pub(super) fn time_zone() -> Option<String> {
    zone(std::env::var("TZ").ok().as_deref(), Path::new("/etc/localtime"), read("/etc/timezone"))
}

/// `localtime` leads to a file of the time zone database; where it is not there the zone is UTC. A copy of a file in its
/// place has no name: then `timezone`, which some systems keep, is all there is.
fn zone(variable: Option<&str>, localtime: &Path, timezone: Option<String>) -> Option<String> {
    let of_path = |path: &str| Some(path.split_once("zoneinfo/").map_or(path, |(_, name)| name).to_owned());
    match variable.map(|tz| tz.strip_prefix(':').unwrap_or(tz)) {
        Some("") => return Some("UTC".to_owned()),
        Some(tz) => return of_path(tz),
        None => {}
    }
    match std::fs::read_link(localtime) {
        Ok(link) => of_path(link.to_str()?),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => timezone.or_else(|| Some("UTC".to_owned())),
        Err(_) => timezone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected hash is Python's, by `hmac` and the steps of systemd's documentation.
    #[test]
    fn ids_are_hashed_as_systemd_does_it() {
        let hash = "hmac-sha256:639e4f784d0444a696b8d39085268187";
        assert_eq!(hashed("0123456789abcdef0123456789abcdef").as_deref(), Some(hash));
        assert_eq!(hashed("01234567-89ab-cdef-0123-456789abcdef").as_deref(), Some(hash));
        for none in [
            "",
            "uninitialized",
            "0123",
            "00000000000000000000000000000000",
            "é123456789abcdef0123456789abcde",
        ] {
            assert_eq!(hashed(none), None, "{none}");
        }
    }

    #[test]
    fn a_zone_has_its_name_wherever_that_stands() {
        let dir = tempfile::tempdir().unwrap();
        let (link, copy, none) = (dir.path().join("link"), dir.path().join("copy"), dir.path().join("none"));
        #[cfg(unix)]
        std::os::unix::fs::symlink("../usr/share/zoneinfo/America/Argentina/Salta", &link).unwrap();
        std::fs::write(&copy, "TZif2").unwrap();
        let zone = |variable, path, timezone: Option<&str>| zone(variable, path, timezone.map(str::to_owned));
        #[cfg(unix)]
        assert_eq!(zone(None, &link, Some("Asia/Tokyo")).as_deref(), Some("America/Argentina/Salta"));
        assert_eq!(zone(None, &copy, Some("Asia/Tokyo")).as_deref(), Some("Asia/Tokyo"));
        assert_eq!(zone(None, &copy, None), None);
        assert_eq!(zone(None, &none, None).as_deref(), Some("UTC"));
        assert_eq!(zone(Some(":Europe/Berlin"), &link, None).as_deref(), Some("Europe/Berlin"));
        assert_eq!(
            zone(Some("/usr/share/zoneinfo/Europe/Oslo"), &link, None).as_deref(),
            Some("Europe/Oslo")
        );
        assert_eq!(zone(Some(""), &link, None).as_deref(), Some("UTC"));
        assert_eq!(zone(Some("CET-1CEST"), &link, None).as_deref(), Some("CET-1CEST"));
    }
}
