//! What the calls of this crate cost on this machine: `cargo run --release -p fathom-os --example costs`.

use fathom_os::clock::mono_ns;
use fathom_os::host::{HostFacts, NicFacts};
use fathom_os::interfaces;
use fathom_os::pause::{DEFAULT_PERIOD, DEFAULT_THRESHOLD, PauseClock};
use fathom_os::process::cpu_time_ns;
use fathom_os::socket::tcp_info;
use std::time::Duration;

/// Median duration of one call, in ns.
fn median_ns(rounds: usize, mut call: impl FnMut()) -> u64 {
    let mut times: Vec<u64> = (0..rounds)
        .map(|_| {
            let before = mono_ns();
            call();
            mono_ns() - before
        })
        .collect();
    times.sort_unstable();
    times[rounds / 2]
}

fn main() -> std::io::Result<()> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let stream = std::net::TcpStream::connect(listener.local_addr()?)?;
    let stream = mio::net::TcpStream::from_std(stream);
    println!("an empty measurement   {} ns", median_ns(100_000, || ()));
    println!("tcp_info               {} ns", median_ns(100_000, || assert!(tcp_info(&stream).is_some())));
    let (local, remote) = (stream.local_addr()?, stream.peer_addr()?);
    println!("HostFacts::gather      {} ns", median_ns(100, || drop(HostFacts::gather(Some("lo")))));
    println!("interfaces::towards    {} ns", median_ns(1_000, || drop(interfaces::towards(local, remote))));
    // Of each interface: a virtual one answers from memory, a card may have to be asked.
    for entry in std::fs::read_dir("/sys/class/net")? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        println!("NicFacts::of {name:<9} {} ns", median_ns(1_000, || drop(NicFacts::of(&name))));
    }
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(20);
    let before = (cpu_time_ns(), mono_ns());
    let clock = PauseClock::start(DEFAULT_PERIOD, DEFAULT_THRESHOLD, |pause| {
        println!("pause                  {pause:?} {:?}", pause.cause());
    })?;
    std::thread::sleep(Duration::from_secs(seconds));
    drop(clock);
    if let (Some(before_cpu), Some(after_cpu)) = (before.0, cpu_time_ns()) {
        let share = (after_cpu - before_cpu) as f64 / (mono_ns() - before.1) as f64;
        println!("pause clock            {:.3} % of a core over {seconds} s", share * 100.0);
    }
    println!("{:#?}", HostFacts::gather(Some("lo")));
    Ok(())
}
