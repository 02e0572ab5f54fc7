//! The emulated network in virtual time.

mod clients;
mod hostile_scenarios;
mod presets;
mod schema;
mod stages;
mod verdicts;
