//! Faults in real namespaces, and the verdicts about them.
//!
//! `make test` makes a stall and two deaths; the others are in the modules' `acceptance`.

use crate::support::faults::make_all;

mod deaths;
mod directions;
mod ipv6;
mod pauses;
mod senders;
mod stalls;
#[cfg(target_os = "linux")]
mod starved_loops;

#[test]
fn stall_and_deaths_have_their_verdicts() {
    make_all(&[
        ("this flow's way there blackholed for 1.6 s", stalls::flow_forward_briefly),
        ("reflector exits", deaths::reflector_exits),
        ("RST injected", deaths::rst_injected),
    ]);
}
