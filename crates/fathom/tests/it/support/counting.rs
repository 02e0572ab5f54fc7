//! A reflector inside the test: it notes when each frame came, and ends as the test wants.

use fathom_wire::frame::{IDENTITY_LEN, Identity};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// What came on one connection: each frame's sequence number and the moment it was read.
pub(crate) type Arrivals = Vec<(u64, Instant)>;

/// How it leaves a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leave {
    /// When the probe does.
    WithTheProbe,
    /// After so many frames, in order: the kernel sends a FIN.
    ByFin(usize),
    /// After so many frames, with `SO_LINGER` 0: the kernel sends a RST.
    ByReset(usize),
}

/// A reflector for frames of one size, on one connection.
pub(crate) struct Counting {
    pub(crate) address: SocketAddr,
    thread: JoinHandle<Arrivals>,
    accepted: Receiver<()>,
}

impl Counting {
    pub(crate) fn start(size: usize, leave: Leave) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = listener.local_addr().expect("bound");
        let (tell, accepted) = channel();
        let thread = thread::spawn(move || {
            let (stream, _) = listener.accept().expect("a probe connects");
            // One connection: the next attempt is refused.
            drop(listener);
            let _ = tell.send(());
            reflect(stream, size, leave)
        });
        Self { address, thread, accepted }
    }

    /// Waits until the probe has connected.
    pub(crate) fn wait_for_probe(&self) {
        self.accepted.recv_timeout(super::PATIENCE).expect("a probe connects");
    }

    /// What came; to be asked when the connection has ended.
    pub(crate) fn arrivals(self) -> Arrivals {
        self.thread.join().expect("it ended in order")
    }
}

fn reflect(mut stream: TcpStream, size: usize, leave: Leave) -> Arrivals {
    stream.set_nodelay(true).expect("set");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
    let limit = match leave {
        Leave::WithTheProbe => usize::MAX,
        Leave::ByFin(n) | Leave::ByReset(n) => n,
    };
    let mut arrivals = Arrivals::new();
    let (mut buffer, mut held) = (vec![0; 64 << 10], 0);
    while arrivals.len() < limit {
        let n = match stream.read(&mut buffer[held..]) {
            Ok(0) => break,
            Ok(n) => n,
            Err(e) if matches!(e.kind(), ErrorKind::ConnectionReset) => break,
            Err(e) => panic!("reading from the probe: {e}"),
        };
        let now = Instant::now();
        held += n;
        // Two that come at once may be one more than it stays for.
        let whole = (held / size).min(limit - arrivals.len()) * size;
        for frame in buffer[..whole].chunks(size) {
            let identity: &[u8; IDENTITY_LEN] = frame[..IDENTITY_LEN].try_into().expect("its length");
            let identity = Identity::decode(identity).expect("a frame of ours");
            arrivals.push((identity.sequence, now));
        }
        if stream.write_all(&buffer[..whole]).is_err() {
            break;
        }
        buffer.copy_within(whole..held, 0);
        held -= whole;
    }
    if matches!(leave, Leave::ByReset(_)) {
        socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).expect("set");
    }
    arrivals
}
