//! Who this process is.

use fathom_os::peer;
use std::fs;

/// Whether this process is root of the machine and not only of a user namespace, where not all users are mapped one to
/// one: only then may it write to /run and name networks in `ip netns`.
pub(crate) fn is_root_of_machine() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let one_to_one = map.split_ascii_whitespace().eq(["0", "0", "4294967295"]);
    peer::user() == 0 && one_to_one
}
