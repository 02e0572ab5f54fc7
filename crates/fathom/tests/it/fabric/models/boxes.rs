//! A model and a real middlebox behind one interface: packets in on one side, packets out on both.

use std::io;
use std::net::SocketAddr;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use fathom_fabric::event::StageEvent;
use fathom_fabric::model::stream;
use fathom_fabric::packet::Packet;
use fathom_fabric::stage::{Context, Fate, Stage, StageConfig};
use fathom_os::namespace::{Namespace, enter, in_new_network};
use fathom_os::tun::Tun;

use crate::support::PATIENCE;

/// Which side of a middlebox: clients are on the left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

/// What can be tried on both.
pub(crate) trait Middlebox {
    /// A packet comes in; what comes out, and where.
    fn packet(&mut self, from: Side, packet: Packet) -> Vec<(Side, Packet)>;
    /// Time passes.
    fn wait(&mut self, time: Duration);
    /// Every flow is forgotten.
    fn flush(&mut self);
    /// The other backend is in charge.
    fn change_backend(&mut self);
}

/// The network of the clients; all else is on the right.
const LEFT: &str = "10.78.1.";

fn side_of(destination: SocketAddr) -> Side {
    if destination.to_string().starts_with(LEFT) { Side::Left } else { Side::Right }
}

/// A middlebox of the fabric, in virtual time.
#[derive(Debug)]
pub(crate) struct Model {
    stage: Box<dyn Stage>,
    now_ns: u64,
    random: rand_pcg::Pcg64,
    /// What makes the other backend take over.
    change: Option<StageEvent>,
    /// What it has sent of its own while time passed.
    sent: Vec<(Side, Packet)>,
}

impl Model {
    /// As a scenario would configure it.
    pub(crate) fn new(config: &str, change: Option<StageEvent>) -> Self {
        let config: StageConfig = toml::from_str(config).unwrap_or_else(|e| panic!("{config}: {e}"));
        let mut stage = config.build("model", &|_| None).expect("it can be built");
        let now_ns = 1;
        stage.start(now_ns);
        Self { stage, now_ns, random: stream(7, "model"), change, sent: Vec::new() }
    }

    fn with<T>(&mut self, call: impl FnOnce(&mut dyn Stage, u64, &mut Context<'_>) -> T) -> (T, Vec<Packet>) {
        let (mut send, mut claim, mut release, mut truth) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut context = Context {
            random: &mut self.random,
            send: &mut send,
            claim: &mut claim,
            release: &mut release,
            truth: &mut truth,
        };
        let result = call(self.stage.as_mut(), self.now_ns, &mut context);
        (result, send.into_iter().map(|(_, packet)| packet).collect())
    }

    /// What it has sent of its own while time passed, and where.
    pub(crate) fn take_sent(&mut self) -> Vec<(Side, Packet)> {
        std::mem::take(&mut self.sent)
    }

    fn event(&mut self, event: &StageEvent) {
        let (done, _) = self.with(|stage, now_ns, context| stage.event(now_ns, event, context));
        done.expect("the middlebox knows the event");
    }
}

impl Middlebox for Model {
    fn packet(&mut self, _from: Side, packet: Packet) -> Vec<(Side, Packet)> {
        let (fate, sent) = self.with(|stage, now_ns, context| stage.packet(now_ns, packet, context));
        let forwarded = match fate {
            Fate::Forward { packet, .. } => Some(packet),
            Fate::Drop { .. } | Fate::Taken => None,
        };
        let out = forwarded.into_iter().chain(sent);
        out.map(|packet| (side_of(packet.flow().destination), packet)).collect()
    }

    fn wait(&mut self, time: Duration) {
        let until_ns = self.now_ns + time.as_nanos() as u64;
        while let Some(due_ns) = self.stage.next_due_ns().filter(|due_ns| *due_ns <= until_ns) {
            self.now_ns = due_ns.max(self.now_ns);
            let ((), sent) = self.with(|stage, now_ns, context| stage.advance(now_ns, context));
            self.sent.extend(sent.into_iter().map(|packet| (side_of(packet.flow().destination), packet)));
        }
        self.now_ns = until_ns;
    }

    fn flush(&mut self) {
        self.event(&StageEvent::FlushFlows);
    }

    fn change_backend(&mut self) {
        let change = self.change.clone().expect("this middlebox has backends");
        self.event(&change);
    }
}

/// A network namespace that forwards between two TUN devices.
#[derive(Debug)]
pub(crate) struct Kernel {
    namespace: Namespace,
    left: Tun,
    right: Tun,
    /// What makes the other backend take over.
    change: Vec<String>,
    sentinels: u16,
}

fn run(line: &str) -> io::Result<()> {
    let mut words = line.split_whitespace();
    let program = words.next().expect("a program");
    let out = Command::new(program).args(words).output()?;
    if out.status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("{line}: {}", String::from_utf8_lossy(&out.stderr))))
}

/// Where the datagrams go that tell when a packet has been dealt with.
const SENTINEL_PORT: u16 = 9;

impl Kernel {
    /// With these commands run in it: rules first (they load connection tracking), settings after.
    pub(crate) fn new(commands: &[&str], change: &[&str]) -> Self {
        let commands: Vec<_> = commands.iter().map(|line| (*line).to_owned()).collect();
        let made = in_new_network(move || {
            let left = Tun::create("left")?;
            let right = Tun::create("right")?;
            for line in [
                "ip link set lo up",
                "ip address add 10.78.1.254/24 dev left",
                "ip link set left up",
                "ip address add 10.78.2.254/24 dev right",
                "ip link set right up",
                "sysctl -q -w net.ipv4.ip_forward=1",
                // A packet that starts no connection is not to be called an attack.
                "sysctl -q -w net.ipv4.conf.all.rp_filter=0",
            ] {
                run(line)?;
            }
            commands.iter().try_for_each(|line| run(line))?;
            Ok((left, right))
        });
        let (namespace, (left, right)) = made.expect("a network of its own, with two devices");
        let change = change.iter().map(|line| (*line).to_owned()).collect();
        Self { namespace, left, right, change, sentinels: 0 }
    }

    /// Runs commands inside.
    fn run(&self, lines: &[String]) {
        thread::scope(|scope| {
            let inside = scope.spawn(|| {
                enter(None, &self.namespace)?;
                lines.iter().try_for_each(|line| run(line))
            });
            inside.join().expect("it does not panic").expect("the command succeeds");
        });
    }

    /// What can be read now, but for what the kernel says of its own (IPv6 neighbours and groups).
    fn read(tun: &Tun) -> Option<Packet> {
        loop {
            let mut bytes = Vec::with_capacity(2_048);
            if !tun.read(&mut bytes).expect("the device is there") {
                return None;
            }
            if bytes[0] >> 4 == 4 {
                return Some(Packet::parse(0, 0, bytes).expect("the kernel sends good packets"));
            }
        }
    }
}

impl Middlebox for Kernel {
    fn packet(&mut self, from: Side, packet: Packet) -> Vec<(Side, Packet)> {
        let (tun, ends) = match from {
            Side::Left => (&self.left, ["10.78.1.77", "10.78.2.77"]),
            Side::Right => (&self.right, ["10.78.2.77", "10.78.1.77"]),
        };
        self.sentinels += 1;
        let [source, destination] = ends.map(|ip| ip.parse().expect("an address"));
        let sentinel = Packet::udp(
            SocketAddr::new(source, SENTINEL_PORT),
            SocketAddr::new(destination, SENTINEL_PORT),
            &self.sentinels.to_be_bytes(),
        );
        tun.write(packet.bytes()).expect("the device is up");
        tun.write(sentinel.expect("one family").bytes()).expect("the device is up");
        let mut out = Vec::new();
        let deadline = Instant::now() + PATIENCE;
        let mut passed = false;
        loop {
            // The sentinel first: what is there when it has passed is all there is.
            for (side, tun) in [(Side::Left, &self.left), (Side::Right, &self.right)] {
                while let Some(packet) = Self::read(tun) {
                    if packet.flow().destination.port() == SENTINEL_PORT {
                        assert!(packet.bytes().ends_with(&self.sentinels.to_be_bytes()), "an older sentinel");
                        passed = true;
                    } else {
                        out.push((side, packet));
                    }
                }
            }
            if passed {
                // One more round has been read on both sides after it where it passed in the round before.
                for (side, tun) in [(Side::Left, &self.left), (Side::Right, &self.right)] {
                    out.extend(std::iter::from_fn(|| Self::read(tun)).map(|packet| (side, packet)));
                }
                return out;
            }
            assert!(Instant::now() < deadline, "the sentinel has not passed: are the rules right?");
            thread::yield_now();
        }
    }

    fn wait(&mut self, time: Duration) {
        thread::sleep(time);
    }

    fn flush(&mut self) {
        self.run(&["conntrack -F".to_owned()]);
    }

    fn change_backend(&mut self) {
        self.run(&self.change.clone());
    }
}
