//! `fathom limits`.

mod check;
mod idle;
mod killed;
mod one_way;
mod rate;
mod unanswered;
