//! What was measured, in the formats of other tools, for people whose scripts read those (`docs/peers.md`). `fathom import`
//! reads each of them back.
//!
//! A format is one of two shapes. [`rows()`] gives a file that takes samples one by one, while a run goes on or from its
//! recording; [`result()`] gives the text that the tool prints at the end of a run. Both take what is known of the run from a
//! [`Run`]. To add a format: a file here, and a line in [`RowFormat`] or [`ResultFormat`].

mod echo_client;
mod format;
mod latte;
mod psping;
mod rows;
mod run;
mod sockperf;

pub use format::{ResultFormat, RowFormat, result, rows, rows_below};
pub use latte::Intervals;
pub use psping::Buckets;
pub use rows::Rows;
pub use run::{Run, Totals};
