//! Words that several parts must know alike.

/// The note of a run one of whose probing threads failed. Nobody knows how many samples of that thread were under way.
pub const PROBING_FAILED: &str =
    "probing ended early: a probing thread failed; samples that were under way then have no rows";

/// What changed where an older recording does not say.
pub(super) fn remote() -> String {
    "remote".to_owned()
}

/// Host of a notice if a recording names none.
pub(super) fn local() -> String {
    "local".to_owned()
}

pub(super) fn is_local(host: &String) -> bool {
    host == "local"
}
