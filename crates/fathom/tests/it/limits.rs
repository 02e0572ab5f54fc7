//! `fathom limits`.

mod acceptance;
mod check;
mod idle;
mod killed;
mod one_way;
mod rate;
