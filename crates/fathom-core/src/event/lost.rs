//! Why samples that were sent have no row: the reasons of `recording.overflowed`; and the note of lost events.

use crate::text::count;

/// Rows were lost because writing fell behind what was measured.
pub const LOST_BEHIND: &str = "behind";
/// Rows were lost because the disk had no room.
pub const LOST_NO_SPACE: &str = "no_space";
/// Rows were lost because a file had reached the limit of its size (`ulimit -f`), whatever room the disk had.
pub const LOST_FILE_LIMIT: &str = "file_limit";
/// Rows were lost because an error of the disk had stopped the recording.
pub const LOST_STOPPED: &str = "stopped";
/// Rows were lost because the process was killed, or its host failed, before they were on the disk.
pub const LOST_CRASH: &str = "crash";
/// Rows were on the disk and cannot be read any more.
pub const LOST_UNREADABLE: &str = "unreadable";

/// The note of a recording whose probe was killed while there was no room for it, told by recovery: nothing else is known of what was sent
/// meanwhile.
pub const KILLED_WITHOUT_ROOM: &str = "there was no room for the recording (a full disk, or the limit of a file's size) when it broke off: what was \
     sent meanwhile may be missing, and is not counted";

/// Whether a note is [`KILLED_WITHOUT_ROOM`], in the words of whichever version: by how all of them begin.
pub fn tells_killed_without_room(text: &str) -> bool {
    text.starts_with("there was no room for the recording")
}

/// The note of events that have no place in the recording, and why (see [`why_lost`]).
pub fn note_of_lost_events(lost: u64, reason: &str) -> String {
    format!("{} lost: {}", count(lost, "event"), why_lost(Some(reason)))
}

/// Whether a note says that events were lost: in the words of [`note_of_lost_events`], or in those of recordings made before.
pub fn tells_lost_events(text: &str) -> bool {
    [" event lost: ", " events lost: ", " events were lost: "].iter().any(|words| text.contains(words))
}

/// Why rows are missing, as a sentence without its end, from the reason of a `recording.overflowed`.
pub fn why_lost(reason: Option<&str>) -> &'static str {
    match reason {
        Some(LOST_NO_SPACE) => "the disk was full",
        Some(LOST_FILE_LIMIT) => "a file had reached the limit of its size",
        Some(LOST_STOPPED) => "an error of the disk had stopped the recording",
        Some(LOST_CRASH) => "the probe was killed, or its host failed",
        Some(LOST_UNREADABLE) => "the recording was damaged",
        _ => "writing could not keep up",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_space_kill_note_is_recognised() {
        for text in [
            KILLED_WITHOUT_ROOM,
            // As it was first written: recordings have it, and stay as they are.
            "there was no room for the recording (a full disk, or the limit of a file's size) when it broke off: what was sent meanwhile may be \
             missing, and is not counted",
        ] {
            assert!(tells_killed_without_room(text), "{text}");
        }
        assert!(!tells_killed_without_room("there was no room in the rack"));
    }

    #[test]
    fn lost_events_note_is_recognised() {
        for lost in [1, 2, 1_000_000] {
            for reason in [LOST_BEHIND, LOST_NO_SPACE, LOST_FILE_LIMIT, LOST_STOPPED] {
                let text = note_of_lost_events(lost, reason);
                assert!(tells_lost_events(&text), "{text}");
            }
        }
        assert!(tells_lost_events("3 events were lost: the disk was full"), "as it was written before");
        assert!(!tells_lost_events("uplink replaced; two samples lost"));
    }
}
