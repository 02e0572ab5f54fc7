//! The probe, against a network in virtual time.

mod canary;
mod connect_rate;
mod laws;
mod seams;
mod stories;
mod toy_protocol;
