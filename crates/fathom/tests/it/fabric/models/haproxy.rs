//! The load balancer beside `HAProxy` in TCP mode.
//!
//! `HAProxy` is a proxy: it ends the client's connection itself and opens another to the backend. So not every packet can be
//! compared, but what the two ends live through can: whose connection stays where, that an idle one ends at the limit, at
//! both ends, what a dead backend takes with it, and where new connections go then. Where proxies differ in principle this
//! test says how: at the idle limit `HAProxy` closes with a FIN (the model and Azure send a RST or nothing), and without a
//! backend it accepts and then closes (the model drops the SYN).

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use fathom_fabric::event::StageEvent;

use super::boxes::{Middlebox, Model, Side};
use super::script::{Do, Seen, Talk};
use crate::support::{Kept, PATIENCE, free_port, needs, wait_for};

/// The idle limit of both.
const LIMIT: Duration = Duration::from_secs(2);

/// A backend that answers each byte with its name, and can die.
struct Backend {
    port: u16,
    alive: Arc<AtomicBool>,
    streams: Arc<Mutex<Vec<TcpStream>>>,
    /// One message for each connection that ends: what it said last, and how long ago.
    ended: mpsc::Receiver<(u8, Duration)>,
}

impl Backend {
    fn start(name: u8) -> Self {
        let port = free_port();
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("a free port");
        let alive = Arc::new(AtomicBool::new(true));
        let streams = Arc::new(Mutex::new(Vec::new()));
        let (tell, ended) = mpsc::channel();
        let (is_alive, all) = (Arc::clone(&alive), Arc::clone(&streams));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                if !is_alive.load(Ordering::SeqCst) {
                    // The listener goes with this thread: from now on connections are refused.
                    return;
                }
                all.lock().expect("not poisoned").push(stream.try_clone().expect("a descriptor"));
                let tell = tell.clone();
                thread::spawn(move || {
                    let mut byte = [0];
                    let mut last = Instant::now();
                    while let Ok(1..) = stream.read(&mut byte) {
                        last = Instant::now();
                        if stream.write_all(&[name]).is_err() {
                            break;
                        }
                    }
                    // Where the test has ended there is nobody to tell.
                    let _ = tell.send((byte[0], last.elapsed()));
                });
            }
        });
        Self { port, alive, streams, ended }
    }

    /// Its connections end, and it accepts no more.
    fn die(&self) {
        self.alive.store(false, Ordering::SeqCst);
        for stream in self.streams.lock().expect("not poisoned").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        // Wakes the listener, whose last connection this is.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

/// `HAProxy` before two backends. Dropped, it is gone.
struct Proxy {
    address: SocketAddr,
    _child: Kept,
    _home: tempfile::TempDir,
}

impl Proxy {
    fn start(backends: &[&Backend]) -> Self {
        let home = tempfile::tempdir().expect("a directory");
        let port = free_port();
        let limit = LIMIT.as_millis();
        let mut config = format!(
            "defaults\n mode tcp\n timeout connect 1s\n timeout client {limit}ms\n timeout server {limit}ms\n\
             frontend front\n bind 127.0.0.1:{port}\n default_backend back\n\
             backend back\n balance roundrobin\n option redispatch\n"
        );
        for (number, backend) in backends.iter().enumerate() {
            let server =
                format!(" server s{number} 127.0.0.1:{} check inter 100ms fall 2 rise 1\n", backend.port);
            config.push_str(&server);
        }
        let file = home.path().join("haproxy.cfg");
        fs::write(&file, config).expect("written");
        let program = ["/usr/sbin/haproxy", "/usr/local/sbin/haproxy", "/usr/bin/haproxy"]
            .into_iter()
            .find(|path| fs::exists(path).unwrap_or(false))
            .expect("it is installed");
        let child = Command::new(program).arg("-db").arg("-f").arg(&file).stderr(Stdio::null()).spawn();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let proxy = Self { address, _child: Kept(child.expect("HAProxy starts")), _home: home };
        wait_for("HAProxy to serve", || proxy.ask().ok().flatten());
        proxy
    }

    fn connect(&self) -> std::io::Result<TcpStream> {
        let stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(stream)
    }

    /// On a fresh connection: who answers.
    fn ask(&self) -> std::io::Result<Option<u8>> {
        echo(&mut self.connect()?, b'?')
    }
}

/// Who answers; `None` where the connection ended in order.
fn echo(stream: &mut TcpStream, says: u8) -> std::io::Result<Option<u8>> {
    stream.write_all(&[says])?;
    let mut name = [0];
    Ok((stream.read(&mut name)? > 0).then_some(name[0]))
}

fn model(config: &str) -> Model {
    let config = format!(
        "kind = 'load-balancer'\naddress = '10.78.1.100'\nbackends = ['10.78.2.10', '10.78.2.11']\n\
         frontends = [{{ port = 80, backend-port = 80 }}]\nidle = '2s'\n{config}"
    );
    Model::new(&config, Some(StageEvent::Failover { from: "10.78.2.10".to_owned(), forget: false }))
}

fn talk() -> Talk {
    Talk { client: "10.78.1.1", called: "10.78.1.100:80".parse().expect("an address") }
}

/// Whether a new flow of this port goes to the backend whose address ends so.
fn reaches(model: &mut Model, port: u16, last: u8) -> bool {
    let seen = talk().play(&[Do::Syn(port)], model);
    let Seen::Passed(to) = seen[0].1 else { panic!("{seen:?}") };
    to.ip() == std::net::IpAddr::from([10, 78, 2, last])
}

mod acceptance {
    use super::*;

    /// Many connections are spread over both backends, and each stays where it is, whatever others do.
    #[test]
    fn a_connection_stays_with_its_backend() {
        if !needs("haproxy") {
            return;
        }
        let backends = [Backend::start(b'a'), Backend::start(b'b')];
        let proxy = Proxy::start(&[&backends[0], &backends[1]]);
        let mut streams: Vec<_> = (0..20).map(|_| proxy.connect().expect("it serves")).collect();
        let mut rounds = Vec::new();
        for _ in 0..4 {
            let names =
                streams.iter_mut().map(|stream| echo(stream, b'?').expect("it lives").expect("it answers"));
            rounds.push(names.collect::<Vec<_>>());
        }
        assert!(rounds.iter().all(|names| *names == rounds[0]), "{rounds:?}");
        let (first, second): (Vec<u8>, Vec<u8>) = rounds[0].iter().partition(|name| **name == b'a');
        assert_eq!((first.len(), second.len()), (10, 10), "roundrobin");

        let mut model = model("");
        let mut reached = BTreeMap::new();
        for port in 4_000..4_100 {
            let seen = talk().play(&[Do::Open(port), Do::Client, Do::Server, Do::Client], &mut model);
            assert_eq!(seen[1].1, seen[3].1);
            let Seen::Passed(to) = seen[1].1 else { panic!("{seen:?}") };
            *reached.entry(to.ip()).or_insert(0) += 1;
        }
        // Of 100 by a hash; the standard deviation of a fair draw is 5.
        assert!(reached.len() == 2 && reached.values().all(|count| (25..=75).contains(count)), "{reached:?}");
    }

    /// What is used within the limit lives; what is not ends at the limit, at both ends.
    #[test]
    fn an_idle_connection_ends_at_the_limit() {
        if !needs("haproxy") {
            return;
        }
        let backend = Backend::start(b'a');
        let proxy = Proxy::start(&[&backend]);
        let (mut used, mut idle) = (proxy.connect().expect("it serves"), proxy.connect().expect("it serves"));
        assert_eq!(echo(&mut used, b'?').expect("it lives"), Some(b'a'));
        assert_eq!(echo(&mut idle, b'i').expect("it lives"), Some(b'a'));
        for _ in 0..5 {
            thread::sleep(LIMIT / 4);
            assert_eq!(echo(&mut used, b'?').expect("a quarter of the limit is no idleness"), Some(b'a'));
        }
        // A FIN: the proxy closes in order.
        let mut byte = [0];
        assert_eq!(idle.read(&mut byte).expect("a FIN and no RST"), 0);
        let told = wait_for("the backend to be told too", || {
            backend.ended.try_recv().ok().filter(|(said, _)| *said == b'i').map(|(_, ago)| ago)
        });
        assert!(told + Duration::from_millis(10) >= LIMIT, "after {told:?} already");

        let lived = [Do::Open(4_000), Do::Wait(500), Do::Client, Do::Wait(1_999), Do::Server];
        let seen = talk().play(&lived, &mut model(""));
        assert!(seen.iter().all(|(_, seen)| !matches!(seen, Seen::Silent)), "{seen:?}");
        // The model as Azure with "TCP reset on idle": both ends are told, by a RST.
        let mut model = model("on-expiry = 'reset'");
        talk().play(&[Do::Open(4_000), Do::Client, Do::Server], &mut model);
        model.wait(LIMIT.saturating_sub(Duration::from_nanos(1)));
        assert_eq!(model.take_sent(), []);
        model.wait(Duration::from_nanos(1));
        let told: Vec<_> = model.take_sent().iter().map(|(side, _)| *side).collect();
        assert_eq!(told, [Side::Left, Side::Right]);
    }

    /// A backend dies: its connections end, those of the other do not, and new ones go to the other. Without any, nobody serves.
    #[test]
    fn dead_backend_ends_only_its_connections() {
        if !needs("haproxy") {
            return;
        }
        let backends = [Backend::start(b'a'), Backend::start(b'b')];
        let proxy = Proxy::start(&[&backends[0], &backends[1]]);
        let mut streams: Vec<_> = (0..4).map(|_| proxy.connect().expect("it serves")).collect();
        let names: Vec<_> = streams.iter_mut().map(|stream| echo(stream, b'?').expect("it lives")).collect();
        backends[0].die();
        for (stream, name) in streams.iter_mut().zip(names) {
            if name == Some(b'a') {
                // FIN or RST, by whether a byte was on its way.
                let ended = echo(stream, b'?');
                let reset = |e: &std::io::Error| {
                    [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe].contains(&e.kind())
                };
                assert!(matches!(&ended, Ok(None)) || ended.as_ref().is_err_and(reset), "{ended:?}");
            } else {
                assert_eq!(echo(stream, b'?').expect("its backend lives"), name);
            }
        }
        for _ in 0..6 {
            assert_eq!(proxy.ask().expect("it serves"), Some(b'b'));
        }
        backends[1].die();
        wait_for("the proxy to have nobody", || (!matches!(proxy.ask(), Ok(Some(_)))).then_some(()));
        assert!(proxy.connect().is_ok(), "a proxy accepts all the same");

        let mut model = model("");
        let port = (4_000..5_000).find(|port| reaches(&mut model, *port, 10)).expect("about each second one");
        let other =
            (5_000..6_000).find(|port| reaches(&mut model, *port, 11)).expect("about each second one");
        // The dead one's host answers with a RST, which reaches the client.
        for (port, backend, answer) in
            [(port, "10.78.2.10:80", Do::ServerRefuses), (other, "10.78.2.11:80", Do::Server)]
        {
            let seen = talk().play(&[Do::Open(port), Do::ChangeBackend, Do::Client, answer], &mut model);
            assert_eq!(seen[2].1, Seen::Passed(backend.parse().expect("an address")), "{seen:?}");
            assert!(matches!(seen[3].1, Seen::Passed(_)), "{seen:?}");
        }
        assert!((7_000..7_050).all(|port| reaches(&mut model, port, 11)), "new ones go to the other");
    }
}
