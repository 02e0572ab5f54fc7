//! Scenarios played in virtual time: what their probes measure, recorded like a run of `fathom probe`; and applications under
//! policies in their place, compared.
//!
//! ```text
//!     scenario     reads a scenario's file
//!     truths       truth.jsonl, what the fabric did
//!     recorded     the recordings, and what their manifests say
//!     played       a simulation played to its end, and where what comes of it goes
//!     probes       a run of the scenario's probes
//!     clients      runs of applications under policies, each in a world of its own
//!     ranking      which policy did better, and how sure that is
//! ```

mod clients;
mod error;
mod played;
mod probes;
mod ranking;
mod recorded;
mod scenario;
mod truths;

pub use clients::{Comparison, Outcome, compare};
pub use error::Error;
pub use probes::{Probed, probe};
pub use ranking::{Estimate, Ranked, Weigh};
pub use recorded::Made;
pub use scenario::{read, round_trips};
