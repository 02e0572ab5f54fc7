use super::*;
use proptest::prelude::*;

/// A packet by the fields of RFC 8762, figure 2, written out by hand: number 7; 2026-11-21 10:00:00.5 UTC by the
/// NTP epoch (see `epochs`); synchronised to 2^-10 s = 1 * 2^(22 - 32) s; session 0x0102.
const SENT: [u8; 44] = [
    0, 0, 0, 7, // sequence number
    0xEE, 0xAB, 0xEA, 0x20, 0x80, 0, 0, 0, // timestamp
    0x96, 0x01, // S, scale 22; multiplier 1
    0x01, 0x02, // session identifier
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
];
/// 2026-11-21 10:00:00 UTC by `date -u +%s`.
const UNIX_S: i64 = 1_795_255_200;

#[test]
fn epochs() {
    // RFC 5905, figure 4: 1 January 1970 is 2,208,988,800 s after 1900.
    assert_eq!(i64::from(0xEEAB_EA20_u32) - 2_208_988_800, UNIX_S);
    assert_eq!(TimeFormat::Ntp.encode(UNIX_S * NS + NS / 2), 0xEEAB_EA20_8000_0000);
    // RFC 5905, figure 4: the first day of NTP's era 1 is 8 February 2036, and begins at 06:28:16.
    assert_eq!(TimeFormat::Ntp.decode(0), 2_085_978_496 * NS);
    assert_eq!(TimeFormat::Ntp.decode(0x8000_0000_0000_0000) / NS, (1 << 31) - 2_208_988_800);
    assert_eq!(TimeFormat::Ptp.decode(0x0000_0005_0000_0007), 5 * NS + 7);
}

#[test]
fn a_sender_writes_the_layout_of_the_rfc() {
    let error = ErrorEstimate { synchronized: true, format: TimeFormat::Ntp, scale: 22, multiplier: 1 };
    let sent = Sent { sequence: 7, timestamp: 0xEEAB_EA20_8000_0000, error, session: 0x0102 };
    let mut bytes = [0xFF; 44];
    sent.encode(&mut bytes);
    assert_eq!(bytes, SENT);
    assert_eq!(Sent::decode(&SENT), Some(sent));
    assert_eq!(error.bound_ns(), Some(976_563), "2^-10 s, rounded up");
    let mut longer = [0xFF; 60];
    sent.encode(&mut longer);
    assert_eq!(longer[..44], SENT);
    // Flags U, type 1, twelve bytes (RFC 8972, figures 4 and 6).
    assert_eq!(longer[44..], [0x80, 1, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn reflected_and_sent_packets_are_distinguished() {
    assert!(!is_reflected(&SENT));
    assert!(!is_reflected(&[0; 44]), "a sender without a clock");
    assert!(!is_reflected(&SENT[..43]));
    for format in [TimeFormat::Ntp, TimeFormat::Ptp] {
        for sequence in [None, Some(0)] {
            let error = ErrorEstimate { format, ..ErrorEstimate::of(None) };
            let (received_ns, sent_ns) = (UNIX_S * NS + NS - 1, UNIX_S * NS + NS + 1);
            let mut packet = SENT;
            assert!(Reflection { sequence, received_ns, sent_ns, error, ttl: 64 }.write(&mut packet));
            assert!(is_reflected(&packet), "{format:?}");
        }
    }
}

#[test]
fn a_reflector_writes_the_layout_of_the_rfc() {
    let error = ErrorEstimate { synchronized: false, format: TimeFormat::Ptp, scale: 3, multiplier: 9 };
    let reflection =
        Reflection { sequence: Some(5), received_ns: 2 * NS + 3, sent_ns: 2 * NS + 4, error, ttl: 61 };
    let mut bytes = SENT;
    assert!(reflection.write(&mut bytes));
    let expected = [
        0, 0, 0, 5, // the reflector's number
        0, 0, 0, 2, 0, 0, 0, 4, // its timestamp
        0x43, 0x09, // Z, scale 3; multiplier 9
        0x01, 0x02, // session identifier
        0, 0, 0, 2, 0, 0, 0, 3, // receive timestamp
        0, 0, 0, 7, // the sender's number
        0xEE, 0xAB, 0xEA, 0x20, 0x80, 0, 0, 0, // the sender's timestamp
        0x96, 0x01, // the sender's error estimate
        0, 0, 61, 0, 0, 0,
    ];
    assert_eq!(bytes, expected);
    let read = Reflected::decode(&bytes).expect("long enough");
    assert_eq!((read.sequence, read.sender_sequence, read.sender_ttl), (5, 7, 61));
    assert_eq!((read.received_ns, read.sent_ns), (2 * NS + 3, 2 * NS + 4));
    assert_eq!((read.error, read.sender_timestamp), (error, 0xEEAB_EA20_8000_0000));
    assert_eq!(Reflected::decode(&bytes[..41]), Some(read), "TWAMP ends here");
    assert_eq!(Reflected::decode(&bytes[..38]), Some(Reflected { sender_ttl: 0, ..read }));
    assert_eq!(Reflected::decode(&bytes[..37]), None);
    // Stateless: the sender's number is repeated.
    let mut bytes = SENT;
    assert!(Reflection { sequence: None, ..reflection }.write(&mut bytes));
    assert_eq!((bytes[3], bytes[27]), (7, 7));
}

#[test]
fn extensions_come_back_with_what_became_of_them() {
    let reflection =
        Reflection { sequence: Some(0), received_ns: 0, sent_ns: 0, error: ErrorEstimate::of(None), ttl: 0 };
    let reflect = |extensions: &[u8]| {
        let mut bytes = [&SENT[..], extensions].concat();
        assert!(reflection.write(&mut bytes));
        bytes.split_off(44)
    };
    // Extra Padding is understood; Location (2) is not; the rest has no room for a header.
    assert_eq!(
        reflect(&[0x80, 1, 0, 2, 9, 9, 0x80, 2, 0, 1, 7, 0xA, 0xB]),
        [0, 1, 0, 2, 9, 9, 0x80, 2, 0, 1, 7, 0xA, 0xB]
    );
    // A length beyond the end is malformed, and nothing is read behind it.
    assert_eq!(reflect(&[0x80, 2, 0, 5, 1, 2, 3, 4]), [0x40, 2, 0, 5, 1, 2, 3, 4]);
}

proptest! {
    #[test]
    fn moments_survive_the_wire(utc_ns in 0..4_102_444_800 * NS) {
        prop_assert_eq!(TimeFormat::Ntp.decode(TimeFormat::Ntp.encode(utc_ns)), utc_ns);
        prop_assert_eq!(TimeFormat::Ptp.decode(TimeFormat::Ptp.encode(utc_ns)), utc_ns);
    }

    #[test]
    fn error_estimate_is_tight_upper_bound(error_ns in 0..u64::MAX / 4) {
        let estimate = ErrorEstimate::of(Some(error_ns));
        prop_assert!(estimate.multiplier > 0);
        prop_assert_eq!(ErrorEstimate::decode(estimate.encode()), estimate);
        let bound = estimate.bound_ns().expect("synchronised");
        prop_assert!(bound >= error_ns && bound as f64 <= error_ns as f64 * 1.01 + 2.0, "{} for {}", bound, error_ns);
    }

    #[test]
    fn reply_keeps_length_and_sender_fields(
        bytes in prop::collection::vec(any::<u8>(), 0..200), sequence: Option<u32>, ttl: u8,
        received_ns in 0..2_000_000_000 * NS, stay in 0..NS,
    ) {
        let error = ErrorEstimate::of(Some(1_000));
        let reflection = Reflection { sequence, received_ns, sent_ns: received_ns + stay, error, ttl };
        let mut answer = bytes.clone();
        let answered = reflection.write(&mut answer);
        prop_assert_eq!(answer.len(), bytes.len());
        prop_assert_eq!(answered, bytes.len() >= PACKET_LEN);
        let (Some(sent), Some(read)) = (Sent::decode(&bytes), Reflected::decode(&answer)) else {
            prop_assert_eq!(answer, bytes);
            return Ok(());
        };
        prop_assert_eq!((read.sender_sequence, read.sender_timestamp), (sent.sequence, sent.timestamp));
        prop_assert_eq!((read.received_ns, read.sent_ns), (received_ns, received_ns + stay));
        prop_assert_eq!((read.sequence, read.sender_ttl), (sequence.unwrap_or(sent.sequence), ttl));
        // Nothing behind the packet changes but flags.
        let same = answer[44..].iter().zip(&bytes[44..]).filter(|(a, b)| *a & 0x1F == *b & 0x1F).count();
        prop_assert_eq!(same, bytes.len() - 44);
    }
}
