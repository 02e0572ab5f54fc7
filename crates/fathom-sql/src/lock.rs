//! What threads share.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes it, also where a thread panicked with it: each value here is whole between any two writes.
pub(crate) fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
