//! Acceptance tests that depend on time report a rate: how many runs of a measurement were right.

use std::panic::catch_unwind;

/// Runs a measurement `runs` times, prints how many did not panic, and panics where fewer than `bound` did not.
///
/// For `make acceptance` alone: a test of `make test` is right every time.
pub(crate) fn assert_rate(bound: u32, runs: u32, measurement: fn()) {
    let right = (0..runs).filter(|_| catch_unwind(measurement).is_ok()).count();
    println!("RATE {right} of {runs} (bound {bound})");
    assert!(right >= bound as usize, "right in {right} of {runs} runs; the bound is {bound}");
}
