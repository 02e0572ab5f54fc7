//! Firewall, NAT and load balancer beside nftables with the kernel's connection tracking.
//!
//! What is not compared: a backend's own first packet after the flow was forgotten. nftables lets it out in the backend's
//! name (or rejects it), where clouds' balancers (and the model) do not.

use std::thread;

use fathom_fabric::event::StageEvent;

use super::boxes::{Kernel, Middlebox, Model};
use super::script::{Do, Seen, Talk};
use crate::support::{needs, needs_root};

/// A script, and what is to be seen of each step on both: `P` it passes, `.` silence, `R` its sender gets a RST that it
/// obeys, `-` nothing was sent.
type Script<'a> = &'a [(Do, char)];

/// Plays the script on both at once; what was seen must be the same, and as expected.
fn compare(what: &str, talk: &Talk, script: Script<'_>, model: Model, kernel: impl FnOnce() -> Kernel) {
    let steps: Vec<_> = script.iter().map(|(step, _)| *step).collect();
    let on = |middlebox: &mut dyn Middlebox| talk.play(&steps, middlebox);
    let (mut model, mut kernel) = (model, kernel());
    let (of_model, of_kernel) = (on(&mut model), on(&mut kernel));
    assert_eq!(model.take_sent(), [], "{what}: at a limit the kernel says nothing");
    assert_eq!(of_model, of_kernel, "{what}: the model (left) and the kernel differ");
    let seen = of_kernel.iter().map(|(_, seen)| match seen {
        Seen::Passed(_) => 'P',
        Seen::Silent => '.',
        Seen::Reset { obeyed: true } => 'R',
        Seen::Reset { obeyed: false } => 'r',
        Seen::Done => '-',
    });
    let expected: String = script.iter().map(|(_, seen)| seen).collect();
    assert_eq!(seen.collect::<String>(), expected, "{what}: {of_kernel:?}");
}

fn can_compare() -> bool {
    needs_root() && needs("nft") && needs("conntrack")
}

const TABLE: [&str; 2] =
    ["nft add table ip f", "nft add chain ip f forward { type filter hook forward priority 0; }"];
const STRICT: &str = "sysctl -q -w net.netfilter.nf_conntrack_tcp_loose=0";

/// The limits of connection tracking in s, and the same for the model.
fn limits(established: u32, other: u32) -> (String, String) {
    let name = |state: &str| format!("net.netfilter.nf_conntrack_tcp_timeout_{state}");
    let others = ["syn_sent", "syn_recv", "fin_wait", "close_wait", "last_ack", "time_wait", "close"];
    let set = |state: &str, seconds: u32| format!("{}={seconds}", name(state));
    let all = others.iter().map(|state| set(state, other)).chain([set("established", established)]);
    let kernel = format!("sysctl -q -w {}", all.collect::<Vec<_>>().join(" "));
    let model = format!(
        "idle = {{ established = '{established}s', opening = '{other}s', half-closed = '{other}s', \
         closed = '{other}s', reset = '{other}s' }}"
    );
    (kernel, model)
}

fn firewall(what: &str, unknown: (&str, &[&str]), (kernel, model): &(String, String), script: Script<'_>) {
    let talk = Talk { client: "10.78.1.1", called: "10.78.2.1:80".parse().expect("an address") };
    let config = format!("kind = 'firewall'\nunknown = '{}'\n{model}", unknown.0);
    let make = || Kernel::new(&[&TABLE[..], unknown.1, &[kernel]].concat(), &[]);
    compare(what, &talk, script, Model::new(&config, None), make);
}

const DROP: (&str, &[&str]) = ("drop", &["nft add rule ip f forward ct state invalid drop", STRICT]);
const RESET: (&str, &[&str]) =
    ("reset", &["nft add rule ip f forward ct state invalid reject with tcp reset", STRICT]);
/// The kernel's default: what is unknown is taken up. (The rule that matches nothing loads connection tracking.)
const LOOSE: (&str, &[&str]) = ("admit", &["nft add rule ip f forward ct mark 1 drop"]);

#[test]
fn a_firewall_forgets_like_connection_tracking() {
    if !can_compare() {
        return;
    }
    let long = limits(600, 600);
    let flushed = |ends: char| {
        [(Do::Open(4_000), 'P'), (Do::Client, 'P'), (Do::Server, 'P'), (Do::Flush, '-'), (Do::Client, ends)]
    };
    firewall("taken up", LOOSE, &long, &[&flushed('P')[..], &[(Do::Server, 'P')]].concat());
    let server_first = [(Do::Flush, '-'), (Do::Server, 'P'), (Do::Client, 'P'), (Do::Server, 'P')];
    firewall("taken up by the server", LOOSE, &long, &[&flushed('P')[..], &server_first].concat());
    let afresh = [(Do::Server, '.'), (Do::Open(4_001), 'P'), (Do::Server, 'P'), (Do::Client, 'P')];
    firewall("dropped", DROP, &long, &[&flushed('.')[..], &afresh].concat());
    let afresh = [(Do::Server, 'R'), (Do::Open(4_001), 'P'), (Do::Server, 'P'), (Do::Client, 'P')];
    firewall("rejected", RESET, &long, &[&flushed('R')[..], &afresh].concat());
}

#[test]
fn what_was_never_open_does_not_pass() {
    if !can_compare() {
        return;
    }
    let long = limits(600, 600);
    let unasked = [(Do::Syn(4_000), 'P'), (Do::Flush, '-'), (Do::SynAck, '.'), (Do::Client, '.')];
    firewall("an answer to nothing", DROP, &long, &unasked);
    let reset = [(Do::Open(4_000), 'P'), (Do::Flush, '-'), (Do::ClientReset, '.'), (Do::Client, '.')];
    firewall("a RST of nothing", DROP, &long, &reset);
}

#[test]
fn ports_are_used_again_after_a_close() {
    if !can_compare() {
        return;
    }
    let again = [
        (Do::Open(4_000), 'P'),
        (Do::Client, 'P'),
        (Do::ClientFin, 'P'),
        (Do::Server, 'P'),
        (Do::ServerFin, 'P'),
        (Do::Client, 'P'),
        (Do::Open(4_000), 'P'),
        (Do::Client, 'P'),
        (Do::Server, 'P'),
    ];
    firewall("the same ports again", DROP, &limits(600, 600), &again);
}

fn nat(what: &str, config: &str, rules: &[&str], script: Script<'_>) {
    let talk = Talk { client: "10.78.1.1", called: "10.78.2.1:443".parse().expect("an address") };
    let config = format!("kind = 'nat'\naddresses = ['10.78.2.254']\n{config}");
    let chain = [
        "nft add chain ip f pre { type filter hook prerouting priority 0; }",
        "nft add chain ip f post { type nat hook postrouting priority 100; }",
    ];
    let make = || Kernel::new(&[&TABLE[..], &chain, rules].concat(), &[]);
    compare(what, &talk, script, Model::new(&config, None), make);
}

const TWO_PORTS: &str = "nft add rule ip f post oifname right meta l4proto tcp snat to 10.78.2.254:2000-2001";
const SILENT: &str = "nft add rule ip f pre meta l4proto tcp ct state invalid drop";

#[test]
fn a_nat_without_ports_drops_like_nftables() {
    if !can_compare() {
        return;
    }
    let exhausted = [
        (Do::Open(4_000), 'P'),
        (Do::Open(4_001), 'P'),
        (Do::Syn(4_002), '.'),
        (Do::Flush, '-'),
        (Do::Open(4_002), 'P'),
        (Do::Server, 'P'),
    ];
    nat("no port left", "ports = [2000, 2001]", &[TWO_PORTS, SILENT, STRICT], &exhausted);
}

const VIRTUAL: &str = "10.78.1.100:80";
const TO_FIRST: &str = "nft add rule ip f pre ip daddr 10.78.1.100 tcp dport 80 dnat to 10.78.2.10:8080";
const TO_SECOND: &str = "nft add rule ip f pre ip daddr 10.78.1.100 tcp dport 80 dnat to 10.78.2.11:8080";

fn balancer_model(config: &str) -> Model {
    let config = format!(
        "kind = 'load-balancer'\naddress = '10.78.1.100'\nbackends = ['10.78.2.10', '10.78.2.11']\n\
         frontends = [{{ port = 80, backend-port = 8080 }}]\n{config}"
    );
    Model::new(&config, Some(StageEvent::Failover { from: "10.78.2.10".to_owned(), forget: false }))
}

/// A port whose flow the model gives to the first backend, as the rules of nftables do with every one.
fn port_of_the_first() -> u16 {
    let talk = Talk { client: "10.78.1.1", called: VIRTUAL.parse().expect("an address") };
    let first = |port: &u16| {
        let seen = talk.play(&[Do::Syn(*port)], &mut balancer_model(""));
        seen[0].1 == Seen::Passed("10.78.2.10:8080".parse().expect("an address"))
    };
    (4_000..5_000).find(first).expect("about each second one")
}

fn balancer(what: &str, config: &str, rules: &[&str], script: Script<'_>) {
    let talk = Talk { client: "10.78.1.1", called: VIRTUAL.parse().expect("an address") };
    let chain = [
        "nft add chain ip f pre { type nat hook prerouting priority -100; }",
        TO_FIRST,
        "ip address add 10.78.1.100/32 dev left",
    ];
    let change = ["nft flush chain ip f pre", TO_SECOND];
    let make = || Kernel::new(&[&TABLE[..], &chain, rules].concat(), &change);
    compare(what, &talk, script, balancer_model(config), make);
}

const INVALID: [&str; 3] = [
    "nft add chain ip f first { type filter hook prerouting priority -150; }",
    "nft add rule ip f first meta l4proto tcp ct state invalid drop",
    STRICT,
];

/// The table of `docs/faults.md`: what a client sees when a balancer forgets it.
#[test]
fn a_balancer_forgets_like_nftables() {
    if !can_compare() {
        return;
    }
    let port = port_of_the_first();
    let open = [(Do::Open(port), 'P'), (Do::Client, 'P'), (Do::Server, 'P')];
    let with = |more: &[(Do, char)]| [&open[..], more].concat();
    let same_backend = with(&[(Do::Flush, '-'), (Do::Client, 'P'), (Do::Server, 'P')]);
    balancer("taken up, same backend", "unknown = 'admit'", LOOSE.1, &same_backend);
    // The other backend knows nothing of it: its RST is what the client sees.
    let other_backend =
        with(&[(Do::ChangeBackend, '-'), (Do::Flush, '-'), (Do::Client, 'P'), (Do::ServerRefuses, 'P')]);
    balancer("taken up, other backend", "unknown = 'admit'", LOOSE.1, &other_backend);
    let kept =
        with(&[(Do::ChangeBackend, '-'), (Do::Client, 'P'), (Do::Server, 'P'), (Do::Syn(port + 1), 'P')]);
    balancer("remembered, other backend", "", LOOSE.1, &kept);
    let refused = with(&[(Do::Flush, '-'), (Do::Client, 'R'), (Do::Server, 'R')]);
    balancer("its own address answers", "unknown = 'reset'", RESET.1, &refused);
    let silent = with(&[(Do::Flush, '-'), (Do::Client, '.'), (Do::Server, '.'), (Do::Open(port), 'P')]);
    balancer("silent", "unknown = 'drop'", &INVALID, &silent);
}

/// The kernel's limits are whole seconds.
mod acceptance {
    use super::*;

    /// Runs cases that wait side by side; a panic of one is the test's.
    fn together(cases: &[&(dyn Fn() + Sync)]) {
        thread::scope(|scope| {
            for case in cases {
                scope.spawn(case);
            }
        });
    }

    /// Each limit is a second or two; what must be within it waits a third of it, what must be beyond it half as much again.
    #[test]
    fn firewall_idle_limits_are_those_of_connection_tracking() {
        if !can_compare() {
            return;
        }
        let (short, others) = (limits(3, 600), limits(600, 2));
        let idle = |ends: char| {
            [
                (Do::Open(4_000), 'P'),
                (Do::Wait(1_000), '-'),
                (Do::Client, 'P'),
                (Do::Wait(4_500), '-'),
                (Do::Client, ends),
            ]
        };
        // Silence from one end does not matter as long as the other speaks.
        let one_way = |end: Do| {
            let mut script = vec![(Do::Open(4_000), 'P')];
            for _ in 0..4 {
                script.extend([(Do::Wait(1_000), '-'), (end, 'P')]);
            }
            script
        };
        let opening = [(Do::Syn(4_000), 'P'), (Do::Wait(3_000), '-'), (Do::SynAck, '.')];
        let half_closed = [
            (Do::Open(4_000), 'P'),
            (Do::Wait(3_000), '-'),
            (Do::ClientFin, 'P'),
            (Do::Server, 'P'),
            (Do::Wait(3_000), '-'),
            (Do::Server, '.'),
        ];
        let reset =
            [(Do::Open(4_000), 'P'), (Do::ClientReset, 'P'), (Do::Wait(3_000), '-'), (Do::Server, '.')];
        together(&[
            &|| firewall("idle, dropped", DROP, &short, &idle('.')),
            &|| firewall("idle, rejected", RESET, &short, &idle('R')),
            &|| firewall("idle, taken up", LOOSE, &short, &idle('P')),
            &|| firewall("only the client speaks", DROP, &short, &one_way(Do::Client)),
            &|| firewall("only the server speaks", DROP, &short, &one_way(Do::Server)),
            &|| firewall("half open", DROP, &others, &opening),
            &|| firewall("half closed", DROP, &others, &half_closed),
            &|| firewall("after a RST", DROP, &others, &reset),
        ]);
    }

    #[test]
    fn an_idle_nat_answers_like_connection_tracking() {
        if !can_compare() {
            return;
        }
        let masquerade = "nft add rule ip f post oifname right tcp sport 1-65535 snat to 10.78.2.254";
        // From the outside its own address is called, where no socket is: the kernel answers that with a RST anyway.
        let reset = "nft add rule ip f forward ct state invalid reject with tcp reset";
        let (kernel, model) = limits(2, 600);
        let drops = format!("unknown = 'drop'\n{model}");
        let ends = |outcome: char| {
            [
                (Do::Open(4_000), 'P'),
                (Do::Client, 'P'),
                (Do::Server, 'P'),
                (Do::Wait(3_000), '-'),
                (Do::Client, outcome),
                (Do::Server, outcome),
                (Do::Open(4_001), 'P'),
                (Do::Server, 'P'),
            ]
        };
        together(&[&|| nat("silent", &drops, &[masquerade, SILENT, STRICT, &kernel], &ends('.')), &|| {
            nat("one RST to whoever sends next", &model, &[masquerade, reset, STRICT, &kernel], &ends('R'));
        }]);
    }

    #[test]
    fn an_idle_balancer_forgets_like_nftables() {
        if !can_compare() {
            return;
        }
        let port = port_of_the_first();
        let (kernel, model) = limits(2, 600);
        let idle = [
            (Do::Open(port), 'P'),
            (Do::Client, 'P'),
            (Do::Server, 'P'),
            (Do::Wait(500), '-'),
            (Do::Server, 'P'),
            (Do::Wait(3_000), '-'),
            (Do::Client, '.'),
        ];
        balancer("idle", &model, &[&INVALID[..], &[&kernel]].concat(), &idle);
    }
}
