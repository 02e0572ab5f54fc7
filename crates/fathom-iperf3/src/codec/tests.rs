use super::*;
use proptest::prelude::*;
use serde_json::Value;

/// The one document in these bytes.
fn read(bytes: &[u8]) -> Value {
    let mut inbox = Inbox::default();
    inbox.feed(bytes);
    let value = inbox.document().unwrap().expect("it is whole");
    assert!(inbox.is_empty());
    value
}

/// As seen on the wire: `iperf3 -c HOST -t 1 -R -P 2`, and what its server answered in the end.
const REVERSE: &str = r#"{"tcp":true,"omit":0,"time":1,"num":0,"blockcount":0,"parallel":2,"reverse":true,"len":131072,"pacing_timer":1000,"client_version":"3.12"}"#;
const RECEIVED: &str = r#"{"cpu_util_total":26.480220956313126,"cpu_util_user":0.20029287833451545,"cpu_util_system":26.282171982606812,"sender_has_retransmits":18446744073709551615,"congestion_used":"bbr","streams":[{"id":1,"bytes":889782272,"retransmits":18446744073709551615,"jitter":0,"errors":0,"packets":0,"start_time":0,"end_time":1.011572},{"id":3,"bytes":780795904,"retransmits":18446744073709551615,"jitter":0,"errors":0,"packets":0,"start_time":0,"end_time":1.011598}]}"#;

#[test]
fn what_iperf3_says_is_understood() {
    let parameters = Parameters::decode(&serde_json::from_str(REVERSE).unwrap()).unwrap();
    let expected = Parameters {
        tcp: true,
        time_s: 1,
        parallel: 2,
        reverse: true,
        block: 131_072,
        client_version: Some("3.12".into()),
        ..Parameters::default()
    };
    assert_eq!(parameters, expected);

    let results = Results::decode(&serde_json::from_str(RECEIVED).unwrap()).unwrap();
    assert_eq!(results.cpu, CpuUse { user_ppm: 2_003, system_ppm: 262_822 });
    assert_eq!(results.congestion.as_deref(), Some("bbr"));
    let second = results.stream(stream_id(1)).expect("there are two");
    assert_eq!((second.bytes, second.retransmits, second.duration_ns), (780_795_904, None, 1_011_598_000));
    assert_eq!(results.stream(2), None, "iperf3 counts 1, 3, 4");
}

#[test]
fn numbers_accept_common_json_forms() {
    let with = |text: &str| Parameters::decode(&serde_json::from_str(text).unwrap());
    let parameters = with(r#"{"tcp":1,"time":10.0,"bandwidth":1e9,"reverse":0,"authtoken":"x"}"#).unwrap();
    assert_eq!((parameters.tcp, parameters.time_s, parameters.bitrate), (true, 10, Some(1_000_000_000)));
    assert_eq!((parameters.reverse, parameters.authenticates, parameters.parallel), (false, true, 1));
    for text in [r#"{"time":-1}"#, r#"{"time":"ten"}"#, r#"{"len":4294967296}"#, r#"{"parallel":[]}"#] {
        assert!(with(text).is_err(), "{text}");
    }
}

#[test]
fn invalid_and_oversized_documents_are_refused() {
    let fed = |bytes: &[u8]| {
        let mut inbox = Inbox::default();
        inbox.feed(bytes);
        inbox.document()
    };
    assert!(fed(&(MAX_DOCUMENT as u32 + 1).to_be_bytes()).is_err());
    assert!(fed(b"HTTP/1.1 400 Bad Request").is_err());
    assert!(fed(b"\0\0\0\x02[]").is_err(), "no object");
    assert!(fed(b"\0\0\0\x03{} ").is_ok_and(|value| value.is_some()));
    assert_eq!(fed(b"\0\0\0\x03{}"), Ok(None), "cut off");
}

#[test]
fn cookies_are_36_letters_and_a_nul() {
    let cookie = Cookie::new([u64::MAX, 0, 1, 0x1234_5678_9ABC_DEF0]);
    let (letters, end) = cookie.bytes().split_at(36);
    assert!(letters.iter().all(|c| c.is_ascii_lowercase() || (b'2'..=b'7').contains(c)), "{cookie:?}");
    assert_eq!(end, [0]);
    assert_eq!(Cookie::decode(cookie.bytes()), Some(cookie));
    assert_eq!(Cookie::decode(&[b'a'; 37]), None, "it does not end");
    assert_eq!(Cookie::decode(&[0; 37]), None, "it is no text");
}

#[test]
fn every_state_has_its_byte() {
    for byte in 0..=u8::MAX {
        if let Some(state) = State::from_byte(byte) {
            assert_eq!(state.byte(), byte);
        }
    }
    assert_eq!(Refusal::NOT_AUTHORIZED.encode(), [0xFE, 0, 0, 0, 142, 0, 0, 0, 0]);
}

fn name() -> impl Strategy<Value = Option<String>> {
    prop::option::of("[a-z0-9. ]{0,64}")
}

fn parameters() -> impl Strategy<Value = Parameters> {
    (any::<[bool; 7]>(), any::<[u32; 4]>(), prop::option::of(1..1_u64 << 53), name(), name()).prop_map(
        |(on, number, bitrate, congestion, client_version)| Parameters {
            tcp: on[0],
            sctp: on[1],
            omit_s: number[0],
            time_s: number[1],
            parallel: number[2],
            reverse: on[2],
            bidirectional: on[3],
            block: number[3],
            bitrate,
            nodelay: on[4],
            congestion,
            authenticates: on[5],
            client_version,
            drains: on[6],
        },
    )
}

fn any_range() -> impl Strategy<Value = Option<Range>> {
    let range = any::<[u64; 4]>().prop_map(|[count, min, mean, max]| Range { count, min, mean, max });
    prop::option::of(range)
}

fn results() -> impl Strategy<Value = Results> {
    let bytes = 0..1_u64 << 63;
    let stream =
        (any::<u32>(), bytes.clone(), prop::option::of(bytes), 0..1_u64 << 49, any_range(), any_range());
    let stream = stream.prop_map(|(id, bytes, retransmits, duration_ns, srtt_us, cwnd_bytes)| StreamResult {
        id,
        bytes,
        retransmits,
        duration_ns,
        srtt_us,
        cwnd_bytes,
    });
    let cpu =
        (0..1_u64 << 32, 0..1_u64 << 32).prop_map(|(user_ppm, system_ppm)| CpuUse { user_ppm, system_ppm });
    (cpu, name(), prop::collection::vec(stream, 0..8)).prop_map(|(cpu, congestion, streams)| Results {
        cpu,
        congestion,
        streams,
    })
}

proptest! {
    #[test]
    fn what_is_encoded_decodes(parameters in parameters(), results in results()) {
        prop_assert_eq!(Parameters::decode(&read(&parameters.encode())), Ok(parameters));
        prop_assert_eq!(Results::decode(&read(&results.encode())), Ok(results));
    }

    #[test]
    fn document_is_independent_of_chunking(
        mut bytes in prop::collection::vec(any::<u8>(), 0..64),
        whole in parameters(),
        piece in 1..20_usize,
        cut in 0..300_usize,
        foreign in any::<bool>(),
    ) {
        if !foreign {
            bytes = whole.encode();
            bytes.truncate(cut);
        }
        let mut at_once = Inbox::default();
        at_once.feed(&bytes);
        let at_once = at_once.document();
        let (mut inbox, mut in_pieces) = (Inbox::default(), Ok(None));
        for piece in bytes.chunks(piece) {
            inbox.feed(piece);
            in_pieces = inbox.document();
            if in_pieces != Ok(None) {
                break;
            }
        }
        prop_assert_eq!(in_pieces, at_once);
    }
}
