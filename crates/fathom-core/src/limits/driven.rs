//! What a driver knows of a search, whichever limit it is for.

use super::age::Ages;
use super::io::{Input, Output, Progress};
use super::outcome::Outcome;
use super::run::Limits;
use super::view::Standing;
use std::fmt::Debug;

/// A search, as its driver uses it: see [`Limits`].
pub trait Search: Debug {
    /// Begins.
    fn start(&mut self, now: u64);
    /// Takes what the world did.
    fn handle(&mut self, now: u64, input: Input<'_>);
    /// What is to be done next.
    fn poll(&mut self) -> Option<Output>;
    /// When `handle` is to be called at the latest.
    fn next_wake(&self) -> Option<u64>;
    /// Whether it has ended.
    fn is_over(&self) -> bool;
    /// How far it is.
    fn progress(&self) -> Progress;
    /// How far the connections of each length are.
    fn lengths(&self) -> Vec<Standing>;
    /// What it found.
    fn outcome(&self) -> Outcome;
}

macro_rules! search {
    ($($kind:ty),*) => {$(
        impl Search for $kind {
            fn start(&mut self, now: u64) {
                Self::start(self, now);
            }
            fn handle(&mut self, now: u64, input: Input<'_>) {
                Self::handle(self, now, input);
            }
            fn poll(&mut self) -> Option<Output> {
                Self::poll(self)
            }
            fn next_wake(&self) -> Option<u64> {
                Self::next_wake(self)
            }
            fn is_over(&self) -> bool {
                Self::is_over(self)
            }
            fn progress(&self) -> Progress {
                Self::progress(self)
            }
            fn lengths(&self) -> Vec<Standing> {
                Self::lengths(self)
            }
            fn outcome(&self) -> Outcome {
                Self::outcome(self)
            }
        }
    )*};
}

search!(Limits, Ages);
