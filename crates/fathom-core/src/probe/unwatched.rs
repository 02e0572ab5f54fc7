//! What is said of silences where nobody watches this host's own pauses.

use crate::event::EventKind;
use crate::verdict::{Confidence, Verdict};

/// That this host did not run fits a silence on a connection that lives as well as that the path was down does, where that it ran is not
/// known (`--pause-clock off`). So nothing is sure of the path.
pub(super) fn unwatched(mut kind: EventKind) -> EventKind {
    match &mut kind {
        EventKind::ConnectionExplained { about, explanation, .. }
            if about == "stall" && explanation.verdict == Verdict::PathDown =>
        {
            explanation.confidence = explanation.confidence.min(Some(Confidence::Low));
            explanation
                .because
                .push("this host's own pauses are not watched: that it did not run fits as well".to_owned());
        }
        EventKind::DelayEnded { confidence, .. } => *confidence = (*confidence).min(Confidence::Low),
        _ => {}
    }
    kind
}
