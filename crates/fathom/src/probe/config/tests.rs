//! What the arguments become, and what of them is refused.

use super::*;

#[test]
fn the_defaults_are_the_articles_experiment() {
    let c = from_line("10.0.0.4").unwrap();
    assert_eq!(
        (c.pace, c.size, c.connections, c.count, c.duration),
        (Pace::Every(1_000_000_000), 64, 1, None, None)
    );
    assert_eq!(c.paths[0].target, Target { host: "10.0.0.4".into(), port: 7007 });
    assert!(c.reconnect && c.record == Record::Default && c.impolite().is_none());
}

#[test]
fn what_cannot_be_says_how_to_mend_it() {
    for (line, part) in [
        ("h --size 0", "smallest is 1"),
        ("h --size 100MiB", "largest sample is 64MiB"),
        ("h --size 64KiB --udp", "65507"),
        ("h --sizes 64,64KiB --udp", "65507"),
        ("h --sizes 64,100MiB", "largest sample is 64MiB"),
        ("h --sizes 64,128 --size 64", "cannot be used with"),
        ("h --sizes 64,128 --csv x.csv", "pool"),
        ("h --sizes 8..4", "below its beginning"),
        ("h --connect --ping-pong", "cannot be used with"),
        ("h --connect --udp", "cannot be used with"),
        ("h --connect --size 64", "cannot be used with"),
        ("h --connect --connections 2", "cannot be used with"),
        ("h --connect --csv x.csv", "cannot be used with"),
        ("h --stamp --size 46", "44 bytes"),
        ("h --stamp --sizes 44,47", "44 bytes"),
        ("h --stamp --connect", "cannot be used with"),
        ("h --stamp-reflector stateful", "--stamp"),
        ("h --tls", "--connect"),
        ("h --tls --udp", "cannot be used with"),
        ("h --connect", "h:443"),
        ("h --latte-hc 9998", "--latte"),
        ("h --latte --latte-hc 0", "1..=1000000"),
        ("h --latte --connect", "cannot be used with"),
        ("h --connect --tls-insecure", "--tls"),
        ("h:443 --connect --tls --histogram 5", "cannot be used with"),
        ("h:443 --connect --tls --tls-ca no-such-file", "--tls-ca no-such-file"),
        ("h:443 --connect --tls --tls-ca Cargo.toml", "no certificate"),
        ("h:443 --connect --tls --tls-name not..a..name", "--tls-name"),
        ("h --every 0", "--ping-pong"),
        ("h --every -1s", "negative"),
        ("h --for 0", "until Ctrl-C"),
        ("h --priority --spin", "cannot be used with"),
        ("h -4 --source ::1", "family"),
        ("h --stamp --tcp", "cannot be used with"),
        ("h --no-record --on-full exit", "cannot be used with"),
        ("h --udp --user-timeout 5s", "cannot be used with"),
        ("h --stamp --user-timeout 5s", "cannot be used with"),
        ("h --no-reconnect --reconnect-at-most 1s", "cannot be used with"),
        ("h --connect --reconnect-at-most 1s", "cannot be used with"),
        ("h --plain --json", "cannot be used with"),
        ("h --throughput --stamp", "cannot be used with"),
        ("h --throughput --load 1Mbit", "cannot be used with"),
        ("h --throughput --idle-gap 1s", "cannot be used with"),
        ("h --throughput --profile latte", "cannot be used with"),
        ("h --throughput --threads 2", "cannot be used with"),
        ("h --throughput --on-full exit", "cannot be used with"),
        ("h --warm-up 5 --count 5", "leaves none"),
        ("a b --csv x.csv", "export"),
        ("h --tag novalue", "as in"),
        ("h:0", "1 to 65535"),
        ("h --cloud-every 100ms", "1s"),
        ("a b --load 1Mbit", "one target"),
        ("h --idle-gap 1s,1s500us", "told apart"),
        ("h --idle-gap 1s --every 1s", "cannot be used with"),
        ("h --idle-gap 1s --load max", "cannot be used with"),
        ("h --idle-gap soon", "1s,10s,60s"),
        ("h --ping-pong --threads 2", "--connections"),
        ("h --threads 2 --connections 2", "--ping-pong"),
        ("h --ping-pong --threads 2 --connections 2 --cpu 1", "cannot be used with"),
        ("h --cpu 1 --recorder-cpu 1", "name another"),
        ("h --no-record --recorder-cpu 1", "cannot be used with"),
        ("h --load 100", "100Mbit"),
        ("h --load max --sizes 64,128", "cannot be used with"),
        ("h --load max --connect", "cannot be used with"),
        ("h --load-phase 1s", "--load"),
        ("h --load max --load-phase 50ms", "100ms"),
        ("h --load max --for 20s", "--load-phase"),
        ("h --metadata-url https://h", "without TLS"),
    ] {
        let error = from_line(line).expect_err(line);
        assert!(error.contains(part), "{line}: {error}");
    }
}
