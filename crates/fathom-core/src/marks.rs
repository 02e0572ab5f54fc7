//! Marks: what a recording may not be taken for. Whatever shows its figures shows them first.

/// Measured between hosts that `fathom fabric` made on one machine.
pub const EMULATED: &str = "emulated";
/// Made by `fathom fabric simulate`, in virtual time.
pub const SIMULATED: &str = "simulated";
/// Cut short, to see that everything runs.
pub const QUICK: &str = "quick";

/// A mark for people.
pub fn in_words(mark: &str) -> String {
    match mark {
        EMULATED => "EMULATED: measured on a network that `fathom fabric` made on one machine".to_owned(),
        SIMULATED => "SIMULATED: made in virtual time; nothing went over any network".to_owned(),
        QUICK => "QUICK: cut short to see that it runs; too short for its figures to count".to_owned(),
        other => format!("MARKED: {other}"),
    }
}
