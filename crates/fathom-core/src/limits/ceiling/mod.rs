//! Finds the packets per second at which loss or delay begins on a path: without a clock, a socket or a file.
//!
//! ```text
//!     search -> tally     what became of the packets of one step, in windows of a tenth of a second
//!            -> compare   whether a step is worse than those below it
//!     outcome             the bracket, what began, and by how much
//!     recorded -> laws    what the events of a recording amount to, and what must hold among them
//! ```
//!
//! The rate rises in steps of a quarter. A step is held against the two below it, window by window. One that is worse is no
//! ceiling yet: the step below is tried again, then the step itself. Only where the one is as good as before, and the other as bad,
//! does the trouble go with the rate.
//!
//! ```text
//!              as good as those below
//!         +--------------------------------+
//!         v                                |        worse                      as good as before          worse again
//!      next step ------------------> a step's windows ----> the step below again --------------> the step again ----> found
//!         ^                                ^                       |                                   |
//!         |                                |                       | worse too: the one below          | as good: a moment
//!         +--------------------------------+-----------------------+ is the one that is in doubt       | that passed
//!         +-------------------------------------------------------------------------------------------+
//! ```

mod compare;
mod laws;
mod outcome;
mod recorded;
mod search;
mod step;
mod tally;
mod view;

pub use crate::event::{Began, CeilingStepped, Delays, Judged, Window};
pub use outcome::{Bound, Ceiling, Row};
pub use recorded::CeilingRecorded;
pub use search::{Asked, CeilingSearch};
pub use step::Step;
pub use tally::{Seen, Tally};
pub use view::ceiling_picture;
