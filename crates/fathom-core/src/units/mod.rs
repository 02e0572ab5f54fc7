//! Durations, sizes and rates as people write them and read them: the one parser and the one printer of each. The command
//! line, scenarios and summaries all use these, so that what one of them prints any other reads.
//!
//! | quantity | written | held in |
//! |---|---|---|
//! | duration | `250us`, `72.9µs`, `1.5 ms`, `1m30s`, `11h 15m`, `0` | ns |
//! | size | `64`, `1KiB`, `1.5MiB`, `1MB` | bytes |
//! | rate | `100Mbit`, `2.5 Gbit/s`, `1Gbps`; bytes: `50MB`, `8MiB/s` | bits a second |

mod duration;
mod error;
pub mod narrow;
mod rate;
mod scale;
pub mod serde_ns;
pub mod serde_ns_option;
mod size;

pub use duration::{
    duration, duration_compact, duration_exact, duration_ns, duration_text, signed_duration_ns,
};
pub use error::UnitError;
pub use rate::{bits_per_s, rate_text};
pub use size::{size, size_text};
