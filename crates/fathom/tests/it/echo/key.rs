//! `--key`: only clients that know the secret are answered and stamped.

use crate::support::keyed::{
    Keyed, SECRET, count, frame, home, is_answered, is_stamped, key_file, question, secret,
};
use crate::support::probe::{Probe, assert_sound, fathom, wait_for_events};
use crate::support::reflector::Echo;
use crate::support::rows::{Events, of_kind, rows};
use crate::support::{FATHOM, Kept, PATIENCE, signal};
use fathom_wire::{About, HEADER_LEN, Secret};
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

#[test]
fn keyed_probe_is_stamped_at_any_size() {
    let (home, key) = home();
    let reflector = Keyed::start(&key, &[]);
    for (name, options) in [
        ("tcp", "--size 64"),
        ("udp", "--udp --size 100"),
        ("sizes", "--sizes 64,1KiB,1MiB"),
        ("alone", "--ping-pong --count 2000"),
    ] {
        let every = if name == "alone" { "" } else { "--every 10ms --count 30" };
        let line = format!(
            "{} --key {} {options} {every} --record {name} --json --quiet",
            reflector.address,
            key.display()
        );
        let summary = Probe::start(home.path(), &line).finish().summary();
        assert_eq!((count(&summary, "unanswered"), count(&summary, "corrupt")), (0, 0), "{summary}");
        assert_sound(&home.path().join(name));
        let rows = rows(&home.path().join(name));
        assert!(rows.len() >= 30 && rows.iter().all(|row| row.get("reflector_ns").is_some()), "{name}");
        let manifest = fs::read_to_string(home.path().join(name).join("recording.json")).expect("text");
        assert!(!manifest.contains(SECRET), "{manifest}");
    }
    let served = reflector.stop();
    assert_eq!(
        (count(&served["refused"], "key"), count(&served["datagrams_refused"], "key")),
        (0, 0),
        "{served}"
    );
}

#[test]
fn wrong_or_missing_key_gets_no_answer() {
    let (home, key) = home();
    let other = key_file(home.path(), "other", "another secret of more than sixteen bytes");
    let reflector = Keyed::start(&key, &[]);
    for (n, more) in
        ["", "--udp", &format!("--key {}", other.display()), &format!("--udp --key {}", other.display())]
            .into_iter()
            .enumerate()
    {
        let line = format!(
            "{} {more} --count 3 --every 20ms --timeout 200ms --for 2s --record {n} --json --quiet",
            reflector.address
        );
        let outcome = Probe::start(home.path(), &line).finish();
        assert_eq!(outcome.code(), 1, "{more}: {outcome:?}");
        assert_eq!(count(&outcome.objects()[0], "answered"), 0, "{more}: {}", outcome.out);
        let told = outcome.told();
        assert!(
            told.iter().all(|line| line.contains("--key")) && !told.is_empty(),
            "{more}: {}",
            outcome.err
        );
    }
    let (served, told) = reflector.stop_and_hear();
    for protocol in ["tcp", "udp"] {
        let start = format!("fathom echo: refused {protocol} 127.0.0.1:");
        let lines: Vec<&str> = told.lines().filter(|line| line.starts_with(&start)).collect();
        assert!(matches!(lines[..], [line] if line.contains("does not know the key")), "{told}");
    }
    assert!(
        count(&served["refused"], "key") >= 2 && count(&served["datagrams_refused"], "key") >= 2,
        "{served}"
    );
    assert_eq!((count(&served, "bytes"), count(&served, "messages_stamped")), (0, 0), "{served}");
}

/// An endless run suggests the key while it goes on, once, however often it connects again; also where nothing else is shown.
#[test]
fn endless_unanswered_probe_suggests_key_once() {
    let (home, key) = home();
    let other = key_file(home.path(), "other", "another secret of more than sixteen bytes");
    let reflector = Keyed::start(&key, &[]);
    let check = |n: usize, more: &str| {
        let line = format!(
            "probe {} {more} --keep-trying --every 20ms --timeout 100ms --record {n} --json --quiet",
            reflector.address
        );
        let mut command = Command::new(FATHOM);
        command.args(line.split(' ').filter(|word| !word.is_empty())).current_dir(home.path());
        let mut probe =
            Kept(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts"));
        let (tell, told) = std::sync::mpsc::channel();
        let err = BufReader::new(probe.0.stderr.take().expect("piped"));
        thread::spawn(move || err.lines().map_while(Result::ok).try_for_each(|line| tell.send(line)));
        let line = told.recv_timeout(PATIENCE).expect("a line");
        assert!(line.contains("has answered nothing so far") && line.contains("--key"), "{more}: {line}");
        // Over TCP, once two more connections have been looked into.
        let looked = |events: &Events| of_kind(events, "connection.explained").len() >= 3;
        if more != "--udp" {
            wait_for_events(&home.path().join(n.to_string()), "connections that were looked into", looked);
        }
        signal(&probe.0, "INT");
        let rest: Vec<String> = told.iter().collect();
        assert!(!rest.iter().any(|line| line.contains("so far")), "{more}: {rest:?}");
        probe.0.wait().expect("ours");
    };
    thread::scope(|all| {
        for (n, more) in ["", "--udp", &format!("--key {}", other.display())].into_iter().enumerate() {
            let more = more.to_owned();
            all.spawn(move || check(n, &more));
        }
    });
}

/// A reflector without a key takes the codes of datagrams for the mark of an echo. Over TCP it answers.
#[test]
fn probe_only_key_fails_only_on_udp() {
    let (home, key) = home();
    let reflector = Echo::start("127.0.0.1");
    for (more, code) in [("", 0), ("--udp", 1)] {
        let line = format!(
            "{} {more} --key {} --count 3 --every 20ms --timeout 200ms --no-record --json --quiet",
            reflector.address(),
            key.display()
        );
        let outcome = Probe::start(home.path(), &line).finish();
        assert_eq!(outcome.code(), code, "{more}: {outcome:?}");
        let answered = count(&outcome.objects()[0], "answered");
        assert_eq!((answered == 3, answered == 0), (code == 0, code == 1), "{more}: {outcome:?}");
        if code == 1 {
            let last = *outcome.told().last().expect("a line");
            assert!(last.contains("the same --key") && last.contains("Without one"), "{last}");
        }
    }
}

/// Not a byte that is sent without the key comes back, in pieces of any size.
#[test]
fn no_byte_without_key_comes_back() {
    let (_home, key) = home();
    let reflector = Keyed::start(&key, &[]);
    let other = Secret::new(&[9; 32]);
    let strange = [
        b"hello, echo".to_vec(),
        frame(None, 0, 64),
        frame(Some(&other), 0, 200),
        question(None, About::Reflector),
        question(Some(&other), About::Connection),
    ];
    for bytes in &strange {
        for piece in [1, 40, bytes.len()] {
            let mut stream = reflector.tcp();
            // It may be closed before the last piece.
            let _ = bytes.chunks(piece).try_for_each(|piece| stream.write_all(piece));
            let mut back = Vec::new();
            // An end, or a reset where bytes lay unread.
            let _ = stream.read_to_end(&mut back);
            assert!(back.is_empty(), "{back:?}");
        }
        let socket = reflector.udp();
        socket.send(bytes).expect("sent");
        // What is answered is what comes after it.
        let fence = frame(Some(&secret()), 9, 80);
        socket.send(&fence).expect("sent");
        let mut back = [0; 500];
        let length = socket.recv(&mut back).expect("an answer");
        assert!(is_stamped(9, 80, &back[..length]));
    }
    let served = reflector.stop();
    assert_eq!(count(&served["refused"], "key"), 3 * strange.len() as u64, "{served}");
    assert_eq!(count(&served["datagrams_refused"], "key"), strange.len() as u64, "{served}");
    assert_eq!(count(&served, "questions"), 0, "{served}");
}

/// By hand, a byte at a time: frames are stamped, and questions are answered.
#[test]
fn key_holder_is_stamped_and_answered() {
    let (_home, key) = home();
    let (reflector, secret) = (Keyed::start(&key, &[]), secret());
    // A connection is asked about on another. Short frames: one that is back to back for longer has a thread of its own, and is
    // not asked about there.
    let (mut stream, mut other) = (reflector.tcp(), reflector.tcp());
    stream.set_nodelay(true).expect("set");
    let about = [About::Connection, About::Reflector];
    for (sequence, size) in [(0, 64), (1, 65), (2, 130)] {
        for byte in frame(Some(&secret), sequence, size) {
            stream.write_all(&[byte]).expect("it is open");
        }
        let mut echo = vec![0; size as usize];
        stream.read_exact(&mut echo).expect("an echo");
        assert!(is_stamped(sequence, size, &echo), "{size}");
        for about in about {
            other.write_all(&question(Some(&secret), about)).expect("it is open");
            let mut echo = [0; HEADER_LEN];
            other.read_exact(&mut echo).expect("an answer");
            assert!(is_answered(&echo), "{about:?}");
        }
    }
    let socket = reflector.udp();
    for about in about {
        let mut echo = [0; 200];
        socket.send(&question(Some(&secret), about)).expect("sent");
        let length = socket.recv(&mut echo).expect("an answer");
        assert!(is_answered(&echo[..length]), "{about:?}");
    }
    // What came back is no request, and is not answered again.
    let mut echo = [0; 200];
    socket.send(&frame(Some(&secret), 4, 64)).expect("sent");
    let length = socket.recv(&mut echo).expect("an answer");
    socket.send(&echo[..length]).expect("sent");
    socket.send(&frame(Some(&secret), 5, 64)).expect("sent");
    let length = socket.recv(&mut echo).expect("an answer");
    assert!(is_stamped(5, 64, &echo[..length]));
    assert_eq!(count(&reflector.stop()["datagrams_refused"], "key"), 1);
}

#[test]
fn unusable_key_is_rejected_with_reason() {
    let (home, key) = home();
    let short = key_file(home.path(), "short", "0123456789abcde\n");
    let open = key_file(home.path(), "open", SECRET);
    fs::set_permissions(&open, Permissions::from_mode(0o640)).expect("set");
    let long = key_file(home.path(), "long", &"x".repeat(5_000));
    let words = |path: &Path| path.display().to_string();
    let (key, missing) = (words(&key), words(&home.path().join("missing")));
    let here = "127.0.0.1:7007";
    let cases: [(&[&str], &str); 12] = [
        (&["echo", "--key", &missing], "No such file"),
        (&["echo", "--key", &words(&short)], "it holds 15 bytes"),
        (&["echo", "--key", &words(&open)], "chmod 600"),
        (&["echo", "--key", &words(&long)], "more than 4096 bytes"),
        (&["echo", "--key", &words(home.path())], "no regular file"),
        (&["echo", "--key", &key, "--stamp"], "--stamp"),
        (&["echo", "--key", &key, "--throughput"], "--throughput"),
        (&["probe", here, "--key", &words(&open)], "chmod 600"),
        (&["probe", here, "--key", &key, "--size", "63"], "no room"),
        (&["probe", here, "--key", &key, "--connect"], "--connect"),
        (&["probe", here, "--key", &key, "--load", "max"], "--load"),
        (&["probe", here, "--key", &key, "--throughput"], "--throughput"),
    ];
    for (line, says) in cases {
        let outcome = fathom(home.path(), line);
        assert_eq!(outcome.code(), 2, "{line:?}: {outcome:?}");
        assert!(outcome.err.contains(says), "{line:?}: {}", outcome.err);
        assert!(!outcome.err.contains(SECRET), "{}", outcome.err);
    }
}

mod acceptance {
    use super::*;
    use std::net::TcpStream;
    use std::time::Duration;

    /// A connection that sends a byte and waits holds a place; a client with the key gets it. (A connection may take 10 s to
    /// show what it is: that is waited for.)
    #[test]
    fn key_holder_takes_place_of_silent_client() {
        let (home, key) = home();
        let reflector = Keyed::start(&key, &["--max-connections", "3"]);
        let strangers: Vec<TcpStream> = (0..3)
            .map(|_| {
                let mut stranger = reflector.tcp();
                // The beginning of a frame.
                stranger.write_all(&frame(None, 0, 64)[..20]).expect("it is open");
                stranger
            })
            .collect();
        thread::sleep(Duration::from_secs(11));
        let line = format!(
            "{} --key {} --count 3 --every 10ms --no-record --json --quiet",
            reflector.address,
            key.display()
        );
        let summary = Probe::start(home.path(), &line).finish().summary();
        assert_eq!(count(&summary, "unanswered"), 0, "{summary}");
        drop(strangers);
        assert!(count(&reflector.stop(), "connections_silent_closed") >= 1);
    }
}
