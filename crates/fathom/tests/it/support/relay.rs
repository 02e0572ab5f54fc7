//! A relay of datagrams that loses, doubles and delays as it is told, and knows what it did.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// What a relay does to the datagrams of one probe.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    /// Whether it loses the datagram of this ordinal on its way there; the ordinal of all that came to it.
    pub(crate) there: fn(u64) -> bool,
    /// Whether it loses the echo of this ordinal; the ordinal of all that came back to it.
    pub(crate) back: fn(u64) -> bool,
    /// Whether it sends the datagram of this ordinal on its way there behind the next.
    pub(crate) late: fn(u64) -> bool,
    /// How often the echo of this ordinal is passed on.
    pub(crate) times: fn(u64) -> usize,
}

/// A relay that does nothing.
pub(crate) const NONE: Fault = Fault { there: |_| false, back: |_| false, late: |_| false, times: |_| 1 };

/// A relay between a probe and a reflector; what it lost there and back when it ended.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    stop: Arc<AtomicBool>,
    lost: JoinHandle<(u64, u64)>,
}

impl Relay {
    pub(crate) fn start(reflector: SocketAddr, fault: Fault) -> Self {
        let here = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        let there = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        there.connect(reflector).expect("loopback");
        for socket in [&here, &there] {
            socket.set_read_timeout(Some(Duration::from_millis(1))).expect("set");
        }
        let address = here.local_addr().expect("bound");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let lost = thread::spawn(move || relay(&here, &there, fault, &stopped));
        Self { address, stop, lost }
    }

    /// Ends it; what it lost there, and back.
    pub(crate) fn end(self) -> (u64, u64) {
        self.stop.store(true, Ordering::Relaxed);
        self.lost.join().expect("it ended in order")
    }
}

fn relay(here: &UdpSocket, there: &UdpSocket, fault: Fault, stop: &AtomicBool) -> (u64, u64) {
    let (mut came, mut returned, mut lost) = (0, 0, (0, 0));
    let mut probe = None;
    let mut held: Option<Vec<u8>> = None;
    let mut bytes = [0; 2_048];
    while !stop.load(Ordering::Relaxed) {
        if let Ok((n, from)) = here.recv_from(&mut bytes) {
            probe = Some(from);
            if (fault.there)(came) {
                lost.0 += 1;
            } else if (fault.late)(came) {
                held = Some(bytes[..n].to_vec());
            } else {
                there.send(&bytes[..n]).expect("sent");
                if let Some(late) = held.take() {
                    there.send(&late).expect("sent");
                }
            }
            came += 1;
        }
        while let Ok(n) = there.recv(&mut bytes) {
            if (fault.back)(returned) {
                lost.1 += 1;
            } else {
                for _ in 0..(fault.times)(returned) {
                    here.send_to(&bytes[..n], probe.expect("it has sent")).expect("sent");
                }
            }
            returned += 1;
        }
    }
    lost
}
