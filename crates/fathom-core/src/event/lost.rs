//! Why samples that were sent have no row: the reasons of `recording.overflowed`.

/// Rows were lost because writing fell behind what was measured.
pub const LOST_BEHIND: &str = "behind";
/// Rows were lost because the disk had no room.
pub const LOST_NO_SPACE: &str = "no_space";
/// Rows were lost because an error of the disk had stopped the recording.
pub const LOST_STOPPED: &str = "stopped";
/// Rows were lost because the process was killed, or its host failed, before they were on the disk.
pub const LOST_CRASH: &str = "crash";
/// Rows were on the disk and cannot be read any more.
pub const LOST_UNREADABLE: &str = "unreadable";

/// Why rows are missing, as a sentence without its end, from the reason of a `recording.overflowed`.
pub fn why_lost(reason: Option<&str>) -> &'static str {
    match reason {
        Some(LOST_NO_SPACE) => "the disk was full",
        Some(LOST_STOPPED) => "an error of the disk had stopped the recording",
        Some(LOST_CRASH) => "the probe was killed, or its host failed",
        Some(LOST_UNREADABLE) => "the recording was damaged",
        _ => "writing could not keep up",
    }
}
