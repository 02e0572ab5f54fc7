//! `fathom probe --throughput`.

mod hostile;
mod runs;
