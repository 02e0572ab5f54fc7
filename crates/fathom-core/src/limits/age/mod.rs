//! Finds the age at which something on the way, or the peer, ends TCP connections that are in use.
//!
//! ```text
//!     run    -> judging   connections that begin at different moments, and are asked again and again
//!            -> settling  which deaths count: what died at one moment did not die of its age
//!            -> noting    how old those became that live, for a recording that breaks off
//!     plan                when they begin, and how often they are asked
//!     lives               how long each lived, and whether an age limit ended them
//!     chance              whether chance did
//! ```
//!
//! A connection:
//!
//! ```text
//!                 connected         first echo            every so often           echo, and it is as old as is asked for
//!     opening ----------------> hello --------> at rest <----------------> asked ------------------------------> survived
//!                                                 |            echo          |
//!                                    FIN or RST   +--------------------------+ or nothing, though others are answered
//!                                                 v
//!                             a death, which counts when all others have been answered a moment later; three and
//!                             more of one moment are no age's doing, and as many begin anew
//! ```

mod chance;
mod found;
mod judging;
mod lives;
mod noting;
mod plan;
mod run;
mod settling;

pub(super) use chance::may_be_chance;
pub(super) use found::outcome_of;
pub use lives::Life;
pub(super) use lives::died_and_became;
pub use run::Ages;
