//! The live view.
use super::driver::Stop;
use super::ledger::Boards;
use std::io;

pub(super) fn run(_labels: &[&str], _boards: &Boards, _stop: &Stop, over: impl Fn() -> bool) -> io::Result<()> {
    while !over() {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    Ok(())
}
