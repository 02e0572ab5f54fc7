//! A reflector inside the test that withholds echoes: it answers some frames, then keeps everything that comes until so
//! many more are there. It counts frames and looks at no clock, so that a silence is as long as the probe's schedule
//! makes it.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};

/// What it does on each connection, in frames.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    /// Answered at once.
    pub(crate) answered: usize,
    /// Withheld after those.
    pub(crate) withheld: usize,
    /// Whether the withheld ones are then answered, and all that follow; otherwise the connection is closed.
    pub(crate) recovers: bool,
}

pub(crate) struct Withholding {
    pub(crate) address: SocketAddr,
    thread: JoinHandle<usize>,
}

impl Withholding {
    /// A reflector for frames of one size, on one connection; further attempts to connect are refused.
    pub(crate) fn start(size: usize, plan: Plan) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = listener.local_addr().expect("bound");
        let thread = thread::spawn(move || {
            let (stream, _) = listener.accept().expect("a probe connects");
            drop(listener);
            serve(stream, size, plan)
        });
        Self { address, thread }
    }

    /// How many frames came; to be asked when the connection has ended.
    pub(crate) fn frames(self) -> usize {
        self.thread.join().expect("it ended in order")
    }
}

fn serve(mut stream: TcpStream, size: usize, plan: Plan) -> usize {
    stream.set_nodelay(true).expect("set");
    stream.set_read_timeout(Some(super::PATIENCE)).expect("set");
    let (mut buffer, mut withheld) = (vec![0; 64 << 10], Vec::new());
    let (begins, ends) = (plan.answered * size, (plan.answered + plan.withheld) * size);
    let mut came = 0;
    loop {
        let n = match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => n,
            Err(e) if e.kind() == ErrorKind::ConnectionReset => break,
            Err(e) => panic!("reading from the probe: {e}"),
        };
        let at_once = begins.saturating_sub(came).min(n);
        came += n;
        withheld.extend_from_slice(&buffer[at_once..n]);
        let mut wanted = stream.write_all(&buffer[..at_once]);
        if came >= ends {
            if !plan.recovers {
                break;
            }
            wanted = wanted.and_then(|()| stream.write_all(&std::mem::take(&mut withheld)));
        }
        if wanted.is_err() {
            break;
        }
    }
    // In order: with nothing unread the kernel sends a FIN.
    let _ = stream.shutdown(Shutdown::Write);
    while stream.read(&mut buffer).is_ok_and(|n| {
        came += n;
        n > 0
    }) {}
    came / size
}
