//! Sockets over loopback, as a probe and a reflector use them.

use fathom_os::reactor::Reactor;
use fathom_os::socket::{
    Inherited, Segments, TcpOptions, bind_udp, connect_result, connect_tcp, connect_udp, inherited_listeners,
    listen_tcp, segments_sent, tcp_info,
};
use mio::{Events, Interest, Token};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

/// Waits until the connection is established or has failed.
fn settle(stream: &mut mio::net::TcpStream) -> std::io::Result<bool> {
    let mut reactor = Reactor::new().unwrap();
    let mut events = Events::with_capacity(4);
    reactor.registry().register(stream, Token(0), Interest::WRITABLE | Interest::READABLE).unwrap();
    let deadline = fathom_os::clock::mono_ns() + 10_000_000_000;
    while fathom_os::clock::mono_ns() < deadline {
        match connect_result(stream) {
            Ok(false) => reactor.wait(&mut events, Some(deadline), false).unwrap(),
            outcome => {
                reactor.registry().deregister(stream).unwrap();
                return outcome;
            }
        }
    }
    panic!("no answer from loopback within 10 s");
}

fn accept(listener: &mut mio::net::TcpListener) -> (mio::net::TcpStream, SocketAddr) {
    let mut reactor = Reactor::new().unwrap();
    let mut events = Events::with_capacity(4);
    reactor.registry().register(listener, Token(0), Interest::READABLE).unwrap();
    loop {
        match listener.accept() {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                reactor.wait(&mut events, None, false).unwrap();
            }
            outcome => {
                reactor.registry().deregister(listener).unwrap();
                return outcome.unwrap();
            }
        }
    }
}

/// Reads an integer option as the kernel holds it.
fn option(fd: &impl AsRawFd, level: libc::c_int, name: libc::c_int) -> libc::c_int {
    let mut value: libc::c_int = -1;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: value and length are valid for writes, and length is the size of value.
    let outcome =
        unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut length) };
    assert_eq!(outcome, 0, "{}", std::io::Error::last_os_error());
    value
}

#[test]
fn tcp_options_reach_kernel_and_peer_connects() {
    for (address, level, name) in
        [(V4, libc::IPPROTO_IP, libc::IP_TOS), (V6, libc::IPPROTO_IPV6, libc::IPV6_TCLASS)]
    {
        let mut listener = listen_tcp(SocketAddr::new(address, 0), 8).unwrap();
        let options = TcpOptions { source: Some(address), dscp: Some(46), ..TcpOptions::default() };
        let mut stream = connect_tcp(listener.local_addr().unwrap(), &options).unwrap();
        assert!(settle(&mut stream).unwrap());
        let (peer, from) = accept(&mut listener);
        assert_eq!(from, stream.local_addr().unwrap());
        assert_eq!(peer.peer_addr().unwrap().ip(), address);
        // Expedited forwarding, code point 46, is the octet 0xb8 (RFC 3246, RFC 2474).
        assert_eq!(option(&stream, level, name), 0xb8);
        assert_eq!(option(&stream, libc::IPPROTO_TCP, libc::TCP_NODELAY), 1);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn nagle_and_the_user_timeout_are_as_asked() {
    let listener = listen_tcp(SocketAddr::new(V4, 0), 8).unwrap();
    let options = TcpOptions { nodelay: false, user_timeout_ms: Some(3_210), ..TcpOptions::default() };
    let stream = connect_tcp(listener.local_addr().unwrap(), &options).unwrap();
    assert_eq!(option(&stream, libc::IPPROTO_TCP, libc::TCP_NODELAY), 0);
    assert_eq!(option(&stream, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT), 3_210);
}

#[test]
fn a_closed_port_is_refused_with_its_number() {
    let closed = listen_tcp(SocketAddr::new(V4, 0), 8).unwrap().local_addr().unwrap();
    let outcome = connect_tcp(closed, &TcpOptions::default()).and_then(|mut stream| settle(&mut stream));
    assert_eq!(outcome.unwrap_err().raw_os_error(), Some(libc::ECONNREFUSED));
}

#[test]
fn wrong_options_are_refused_with_a_remedy() {
    let remote = SocketAddr::new(V4, 9);
    let mixed = TcpOptions { source: Some(V6), ..TcpOptions::default() };
    assert!(connect_tcp(remote, &mixed).unwrap_err().to_string().contains("not of one family"));
    assert!(connect_udp(remote, None, Some(64)).unwrap_err().to_string().contains("0 to 63"));
}

#[test]
fn the_unspecified_ipv6_address_takes_both_families() {
    let any = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0);
    let mut listener = listen_tcp(any, 8).unwrap();
    let udp = bind_udp(any).unwrap();
    assert_eq!(option(&udp, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY), 0);
    let port = listener.local_addr().unwrap().port();
    for address in [V4, V6] {
        let mut stream = connect_tcp(SocketAddr::new(address, port), &TcpOptions::default()).unwrap();
        assert!(settle(&mut stream).unwrap());
        let (_, from) = accept(&mut listener);
        assert_eq!(from.ip().to_canonical(), address);
        let probe =
            connect_udp(SocketAddr::new(address, udp.local_addr().unwrap().port()), None, Some(8)).unwrap();
        assert_eq!(probe.send(b"datagram").unwrap(), 8);
        let mut buffer = [0; 16];
        let (read, from) = udp.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..read], from.port()), (&b"datagram"[..], probe.local_addr().unwrap().port()));
    }
}

#[test]
fn tcp_port_is_reusable_udp_port_is_exclusive() {
    let mut listener = listen_tcp(SocketAddr::new(V4, 0), 8).unwrap();
    let addr = listener.local_addr().unwrap();
    let mut stream = connect_tcp(addr, &TcpOptions::default()).unwrap();
    assert!(settle(&mut stream).unwrap());
    // The side that closes first keeps the port in TIME_WAIT.
    drop(accept(&mut listener));
    drop(listener);
    drop(stream);
    listen_tcp(addr, 8).unwrap();

    let first = bind_udp(SocketAddr::new(V4, 0)).unwrap();
    let second = bind_udp(first.local_addr().unwrap());
    assert_eq!(second.unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
}

#[cfg(target_os = "linux")]
#[test]
fn the_kernels_view_follows_the_traffic() {
    let mut listener = listen_tcp(SocketAddr::new(V4, 0), 8).unwrap();
    let mut stream = connect_tcp(listener.local_addr().unwrap(), &TcpOptions::default()).unwrap();
    assert!(settle(&mut stream).unwrap());
    let (mut peer, _) = accept(&mut listener);
    for stream in [&stream, &peer] {
        // Blocking makes the exchange below simple.
        socket2::SockRef::from(stream).set_nonblocking(false).unwrap();
    }
    let mut byte = [0];
    for _ in 0..100 {
        stream.write_all(b"x").unwrap();
        peer.read_exact(&mut byte).unwrap();
        peer.write_all(&byte).unwrap();
        stream.read_exact(&mut byte).unwrap();
    }
    let info = tcp_info(&stream).unwrap();
    assert!(info.srtt_us > 0 && info.min_rtt_us > 0 && info.min_rtt_us <= info.srtt_us, "{info:?}");
    // RFC 6298 gives the timeout as srtt and more; Linux keeps it at 200 ms at least unless a route says otherwise.
    assert!(info.rto_us > info.srtt_us, "{info:?}");
    assert!(info.snd_cwnd > 0 && info.reordering > 0, "{info:?}");
    assert_eq!((info.backoff, info.total_retrans), (0, 0), "{info:?}");
    // Each write was answered before the next: none was joined with another.
    assert_eq!(segments_sent(&stream), Some(Segments { sent: Some(100), again: 0 }));
    // What is written while the socket is corked leaves as one.
    let cork = |on: bool| socket2::SockRef::from(&stream).set_tcp_cork(on).unwrap();
    cork(true);
    for _ in 0..7 {
        (&stream).write_all(b"x").unwrap();
    }
    cork(false);
    peer.read_exact(&mut [0; 7]).unwrap();
    assert_eq!(segments_sent(&stream), Some(Segments { sent: Some(101), again: 0 }));
}

/// Run by the test below in a process of its own, with a TCP listener as descriptor 3 and a UDP socket as 4.
#[test]
#[ignore = "the child of sockets_are_inherited_in_order"]
fn child_with_inherited_sockets() {
    let inherited = inherited_listeners().unwrap();
    for (at, socket) in inherited.iter().enumerate() {
        let (kind, addr, fd) = match socket {
            Inherited::Tcp(tcp) => ("tcp", tcp.local_addr().unwrap(), tcp.as_raw_fd()),
            Inherited::Udp(udp) => ("udp", udp.local_addr().unwrap(), udp.as_raw_fd()),
        };
        // SAFETY: these only ask for flags.
        let (descriptor, status) =
            unsafe { (libc::fcntl(fd, libc::F_GETFD), libc::fcntl(fd, libc::F_GETFL)) };
        let (exec, block) = (descriptor & libc::FD_CLOEXEC != 0, status & libc::O_NONBLOCK == 0);
        println!("inherited {at} {kind} {addr} cloexec={exec} blocking={block}");
    }
    println!("inherited again {}", inherited_listeners().unwrap().len());
}

#[test]
fn sockets_are_inherited_in_order() {
    use std::os::unix::process::CommandExt;
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let (tcp_fd, udp_fd) = (tcp.as_raw_fd(), udp.as_raw_fd());
    // The shell knows the process id that the child will have after exec, as systemd does.
    let run = |pid: &str| {
        let mut command = std::process::Command::new("sh");
        command
            .args(["-c", &format!("LISTEN_PID={pid} LISTEN_FDS=2 exec \"$0\" \"$@\"")])
            .arg(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", "socket::child_with_inherited_sockets"])
            .stdout(std::process::Stdio::piped());
        // SAFETY: only async-signal-safe calls. First out of the way, so that 3 and 4 do not overwrite each other.
        unsafe {
            command.pre_exec(move || {
                let high = [tcp_fd, udp_fd].map(|fd| libc::fcntl(fd, libc::F_DUPFD, 64));
                for (from, to) in high.into_iter().zip([3, 4]) {
                    if libc::dup2(from, to) < 0 {
                        return Err(std::io::Error::last_os_error());
                    }
                }
                Ok(())
            });
        }
        let mut child = command.spawn().unwrap();
        // The harness may print the test's name before the first of our lines without ending the line.
        let lines: Vec<String> = BufReader::new(child.stdout.take().unwrap())
            .lines()
            .map_while(Result::ok)
            .filter_map(|line| line.find("inherited ").map(|at| line[at..].to_owned()))
            .filter(|line| !line.contains("sockets"))
            .collect();
        assert!(child.wait().unwrap().success());
        lines
    };
    assert_eq!(
        run("$$"),
        [
            format!("inherited 0 tcp {} cloexec=true blocking=false", tcp.local_addr().unwrap()),
            format!("inherited 1 udp {} cloexec=true blocking=false", udp.local_addr().unwrap()),
            "inherited again 0".to_owned(),
        ]
    );
    // Meant for somebody else.
    assert_eq!(run("1"), ["inherited again 0"]);
}
