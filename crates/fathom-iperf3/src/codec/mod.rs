//! The control connection of iperf3's TCP test: what its two ends say to each other, as seen on the wire between
//! iperf3 3.12 and itself.
//!
//! ```text
//! client                                   server
//! cookie, 37 bytes                    ->
//!                                     <-   PARAM_EXCHANGE
//! document: parameters                ->
//!                                     <-   CREATE_STREAMS
//! one connection a stream, each begins
//! with the cookie                     ->
//!                                     <-   TEST_START, TEST_RUNNING
//! ............................ data on the streams ............................
//! TEST_END                            ->
//!                                     <-   EXCHANGE_RESULTS
//! document: results                   ->
//!                                     <-   document: results, DISPLAY_RESULTS
//! IPERF_DONE                          ->
//! ```
//!
//! A state is one byte. A document is its length (four bytes, big-endian) and JSON. A server that runs a test already
//! says `ACCESS_DENIED` and closes; one that will not do what it was asked says `SERVER_ERROR` and two numbers. Unknown
//! keys of a document are passed over by both; we add some of our own, whose names begin with `fathom_`.

mod cookie;
mod document;
mod inbox;
mod limits;
mod parameters;
mod refusal;
mod results;
mod state;
#[cfg(test)]
mod tests;

pub use cookie::{COOKIE_LEN, Cookie};
pub use document::Malformed;
pub use inbox::Inbox;
pub use limits::{DEFAULT_BLOCK, MAX_BLOCK, MAX_DOCUMENT, MAX_PARALLEL, PORT};
pub use parameters::Parameters;
pub use refusal::Refusal;
pub use results::{CpuUse, Range, Results, StreamResult};
pub use state::State;

/// The id that iperf3 gives to a test's stream of this ordinal (from 0): 1, 3, 4, 5, … Results name streams by it.
pub fn stream_id(ordinal: u32) -> u32 {
    if ordinal == 0 { 1 } else { ordinal.saturating_add(2) }
}
