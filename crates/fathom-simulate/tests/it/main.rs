//! Policies compared in virtual time.

mod comparison;
