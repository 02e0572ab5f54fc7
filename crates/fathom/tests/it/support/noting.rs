//! A reflector inside the test for any number of connections: it notes which sample of which came when, and answers by a rule.

use fathom_wire::frame::{IDENTITY_LEN, Identity};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// A sample that came: its connection, its number on that, and when it was read.
pub(crate) type Arrival = (u32, u64, Instant);

/// Which samples are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    All,
    /// Of each ten on a connection the fourth and the last two are not.
    Loses,
    /// Those of odd connections are not from this one on.
    OddSilentFrom(u64),
}

impl Rule {
    fn answers(self, identity: &Identity) -> bool {
        match self {
            Self::All => true,
            Self::Loses => ![3, 8, 9].contains(&(identity.sequence % 10)),
            Self::OddSilentFrom(seq) => identity.connection.is_multiple_of(2) || identity.sequence < seq,
        }
    }
}

pub(crate) struct Noting {
    pub(crate) address: SocketAddr,
    noted: Arc<Mutex<Vec<Arrival>>>,
    over: Arc<AtomicBool>,
}

impl Noting {
    /// For frames of this size, over TCP and UDP on one port.
    pub(crate) fn start(size: usize, rule: Rule) -> Self {
        let (listener, socket) = loop {
            let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
            if let Ok(socket) = UdpSocket::bind(listener.local_addr().expect("bound")) {
                break (listener, socket);
            }
        };
        let address = listener.local_addr().expect("bound");
        let noted = Arc::default();
        let over = Arc::new(AtomicBool::new(false));
        let (of_streams, of_datagrams) = (Arc::clone(&noted), Arc::clone(&noted));
        let (streams_over, datagrams_over) = (Arc::clone(&over), Arc::clone(&over));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if streams_over.load(Ordering::Relaxed) {
                    return;
                }
                let noted = Arc::clone(&of_streams);
                thread::spawn(move || streams(stream, size, rule, &noted));
            }
        });
        thread::spawn(move || datagrams(&socket, rule, &of_datagrams, &datagrams_over));
        Self { address, noted, over }
    }

    /// What came so far.
    pub(crate) fn arrivals(&self) -> Vec<Arrival> {
        self.noted.lock().expect("no panic").clone()
    }
}

impl Drop for Noting {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // The one that waits for a connection sees it too.
        drop(TcpStream::connect(self.address));
    }
}

/// Notes a frame of ours; whether it is to be answered.
fn note(frame: &[u8], rule: Rule, noted: &Mutex<Vec<Arrival>>, now: Instant) -> bool {
    let identity = frame.first_chunk::<IDENTITY_LEN>().and_then(Identity::decode);
    // What is no sample is a question, and has an echo.
    let Some(identity) = identity.filter(|identity| identity.connection < 1 << 16) else { return true };
    noted.lock().expect("no panic").push((identity.connection, identity.sequence, now));
    rule.answers(&identity)
}

fn streams(mut stream: TcpStream, size: usize, rule: Rule, noted: &Mutex<Vec<Arrival>>) {
    stream.set_nodelay(true).expect("set");
    let (mut buffer, mut held) = (vec![0; 64 << 10], 0);
    while let Ok(n @ 1..) = stream.read(&mut buffer[held..]) {
        let now = Instant::now();
        held += n;
        let whole = held / size * size;
        let mut answer = Vec::new();
        for frame in buffer[..whole].chunks(size) {
            if note(frame, rule, noted, now) {
                answer.extend_from_slice(frame);
            }
        }
        if stream.write_all(&answer).is_err() {
            return;
        }
        buffer.copy_within(whole..held, 0);
        held -= whole;
    }
}

fn datagrams(socket: &UdpSocket, rule: Rule, noted: &Mutex<Vec<Arrival>>, over: &AtomicBool) {
    socket.set_read_timeout(Some(Duration::from_millis(100))).expect("set");
    let mut buffer = [0; 2_048];
    while !over.load(Ordering::Relaxed) {
        let Ok((n, peer)) = socket.recv_from(&mut buffer) else { continue };
        if note(&buffer[..n], rule, noted, Instant::now()) {
            let _ = socket.send_to(&buffer[..n], peer);
        }
    }
}
