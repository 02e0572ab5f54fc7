//! Results of every type that a server has, made up here by the specification, and read past.

use super::{outcome, outcome_of, ready, reply, rows};
use crate::client::{Event, Trouble};
use proptest::prelude::*;

/// A type: its description, and a value's bytes for so many bytes of content (`None`: null).
#[derive(Debug, Clone)]
struct Kind {
    info: Vec<u8>,
    value: fn(Option<usize>) -> Vec<u8>,
    /// The only lengths that a value can have.
    sizes: &'static [usize],
    is_nullable: bool,
    has_table: bool,
}

const COLLATION: [u8; 5] = [9, 4, 0xD0, 0, 0x34];

fn kind(info: &[u8], value: fn(Option<usize>) -> Vec<u8>, sizes: &'static [usize]) -> Kind {
    Kind { info: info.to_vec(), value, sizes, is_nullable: true, has_table: false }
}

fn content(n: usize) -> Vec<u8> {
    // Bytes that would be tokens, lengths or ends elsewhere.
    (0..n).map(|i| [0xD1, 0xFF, 0x00, 0xFD, 0x81, 0xD2][i % 6]).collect()
}

fn fixed(length: Option<usize>) -> Vec<u8> {
    content(length.unwrap_or(0))
}

fn byte(length: Option<usize>) -> Vec<u8> {
    [&[length.unwrap_or(0) as u8][..], &content(length.unwrap_or(0))].concat()
}

fn short(length: Option<usize>) -> Vec<u8> {
    let head = length.map_or(0xFFFF, |n| n as u16).to_le_bytes();
    [&head[..], &content(length.unwrap_or(0))].concat()
}

fn long(length: Option<usize>) -> Vec<u8> {
    [&(length.unwrap_or(0) as u32).to_le_bytes()[..], &content(length.unwrap_or(0))].concat()
}

fn pointed(length: Option<usize>) -> Vec<u8> {
    let Some(n) = length else { return vec![0] };
    [&[16][..], &[7; 16], &[8; 8], &(n as u32).to_le_bytes(), &content(n)].concat()
}

/// Of a length that is said first, or is not known; in parts of 1,000.
fn parts(length: Option<usize>) -> Vec<u8> {
    let Some(n) = length else { return vec![0xFF; 8] };
    let said = if n.is_multiple_of(2) { n as u64 } else { u64::MAX - 1 };
    let mut out = said.to_le_bytes().to_vec();
    for part in content(n).chunks(1_000) {
        out.extend_from_slice(&(part.len() as u32).to_le_bytes());
        out.extend_from_slice(part);
    }
    out.extend_from_slice(&[0; 4]);
    out
}

/// MS-TDS 2.2.5.4.
fn kinds() -> Vec<Kind> {
    const ANY: &[usize] = &[1, 2, 50, 255];
    const LONG: &[usize] = &[0, 1, 999, 1_000, 7_999];
    let name = |text: &str| -> Vec<u8> {
        [&[text.len() as u8][..], &text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>()]
            .concat()
    };
    let us_name = |text: &str| -> Vec<u8> {
        let units: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        [&(text.len() as u16).to_le_bytes()[..], &units].concat()
    };
    let mut all = Vec::new();
    for (token, size) in [
        (0x30, &[1_usize][..]),
        (0x32, &[1]),
        (0x34, &[2]),
        (0x38, &[4]),
        (0x3A, &[4]),
        (0x3B, &[4]),
        (0x3C, &[8]),
        (0x3D, &[8]),
        (0x3E, &[8]),
        (0x7A, &[4]),
        (0x7F, &[8]),
    ] {
        all.push(Kind { is_nullable: false, ..kind(&[token], fixed, size) });
    }
    for (info, sizes) in [
        (&[0x24, 16][..], &[16][..]),
        (&[0x26, 8], &[8]),
        (&[0x68, 1], &[1]),
        (&[0x6A, 17, 38, 4], &[17]),
        (&[0x6C, 9, 18, 0], &[9]),
        (&[0x37, 9, 18, 0], &[9]),
        (&[0x3F, 9, 18, 0], &[9]),
        (&[0x6D, 8], &[8]),
        (&[0x6E, 8], &[8]),
        (&[0x6F, 8], &[8]),
        (&[0x28], &[3]),
        (&[0x29, 7], &[5]),
        (&[0x2A, 3], &[7]),
        (&[0x2B, 0], &[8]),
        (&[0x2F, 255], ANY),
        (&[0x27, 255], ANY),
        (&[0x2D, 255], ANY),
        (&[0x25, 255], ANY),
    ] {
        all.push(kind(info, byte, sizes));
    }
    for token in [0xA5, 0xAD] {
        all.push(kind(&[token, 0x40, 0x1F], short, LONG));
    }
    for token in [0xA7, 0xAF, 0xE7, 0xEF] {
        all.push(kind(&[&[token, 0x40, 0x1F][..], &COLLATION].concat(), short, LONG));
    }
    all.push(kind(&[0xA5, 0xFF, 0xFF], parts, LONG));
    for token in [0xA7, 0xE7] {
        all.push(kind(&[&[token, 0xFF, 0xFF][..], &COLLATION].concat(), parts, LONG));
    }
    all.push(kind(&[0xF1, 0], parts, LONG));
    all.push(kind(&[&[0xF1, 1][..], &name("db"), &name("dbo"), &us_name("schemas")].concat(), parts, LONG));
    let own =
        [&[0xF0, 0xFF, 0xFF][..], &name("db"), &name("sys"), &name("geography"), &us_name("an assembly")];
    all.push(kind(&own.concat(), parts, LONG));
    all.push(kind(&[0x62, 0x49, 0x1F, 0, 0], long, &[1, 100, 8_000]));
    for info in [
        &[0x22, 0xFF, 0xFF, 0xFF, 0x7F][..],
        &[&[0x23, 1, 2, 3, 4][..], &COLLATION].concat(),
        &[&[0x63, 1, 2, 3, 4][..], &COLLATION].concat(),
    ] {
        all.push(Kind { has_table: true, ..kind(info, pointed, LONG) });
    }
    all
}

/// The description of these columns.
fn described(kinds: &[Kind]) -> Vec<u8> {
    let mut out = vec![0x81];
    out.extend_from_slice(&(kinds.len() as u16).to_le_bytes());
    for kind in kinds {
        out.extend_from_slice(&[0, 0, 0, 0, 9, 0]);
        out.extend_from_slice(&kind.info);
        if kind.has_table {
            out.extend_from_slice(&[2, 2, 0, b'd', 0, b'b', 0, 1, 0, b't', 0]);
        }
        out.extend_from_slice(&[2, 0xD1, 0, 0xFD, 0]);
    }
    out
}

/// A row of values: of each whether it is null, and which of its lengths it has.
fn row(kinds: &[Kind], values: &[(bool, usize)], names_nulls: bool) -> Vec<u8> {
    let values = || {
        kinds.iter().zip(values.iter().cycle()).map(|(kind, &(is_null, size))| {
            (!(is_null && kind.is_nullable)).then(|| kind.sizes[size % kind.sizes.len()])
        })
    };
    let mut out = vec![if names_nulls { 0xD2 } else { 0xD1 }];
    if names_nulls {
        let mut bits = vec![0_u8; kinds.len().div_ceil(8)];
        values()
            .enumerate()
            .filter(|(_, length)| length.is_none())
            .for_each(|(i, _)| bits[i / 8] |= 1 << (i % 8));
        out.extend(bits);
    }
    for (kind, length) in kinds.iter().zip(values()) {
        if length.is_some() || !names_nulls {
            out.extend((kind.value)(length));
        }
    }
    out
}

fn end(rows: u64) -> Vec<u8> {
    [&[0xFD, 0x10, 0, 0xC1, 0][..], &rows.to_le_bytes()].concat()
}

#[test]
fn every_type_is_read_past() {
    for kind in kinds() {
        let kinds = [kind];
        for names_nulls in [false, true] {
            let rows_of: Vec<u8> =
                (0..10).flat_map(|i| row(&kinds, &[(i % 3 == 0, i)], names_nulls)).collect();
            let bytes = reply(&[described(&kinds), rows_of, end(10)].concat(), 4_096);
            for piece in [1, 7, 100_000] {
                let mut client = ready();
                client.ask("x").unwrap();
                let (events, trouble) = outcome(&mut client, &bytes, &[piece]);
                assert_eq!((rows(&events), trouble), (10, None), "{:02x?}, {piece}", kinds[0].info);
                assert_eq!(events.last(), Some(&Event::Over { stopped: false }));
            }
        }
    }
}

#[test]
fn types_that_are_not_known_are_named() {
    // NULL, which nobody sends; json and vector, which a client asks for.
    for token in [0x1F, 0xF4, 0xF5, 0x00] {
        let mut client = ready();
        client.ask("x").unwrap();
        let bytes = reply(&[0x81, 1, 0, 0, 0, 0, 0, 0, 0, token, 0, 0], 4_096);
        assert_eq!(outcome(&mut client, &bytes, &[1]).1, Some(Trouble::Type(token)));
    }
}

/// 100 MB in one value, of which nothing is kept.
#[test]
fn of_a_long_value_nothing_is_kept() {
    let kind = kinds().into_iter().find(|kind| kind.info.starts_with(&[0xE7, 0xFF, 0xFF])).unwrap();
    let mut client = ready();
    client.ask("x").unwrap();
    let head =
        [described(&[kind]), vec![0xD1], vec![0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]].concat();
    let part = [&80_000_u32.to_le_bytes()[..], &vec![0xD1; 80_000]].concat();
    let full = |body: &[u8]| -> Vec<u8> {
        let mut out = vec![4, 0];
        out.extend_from_slice(&((body.len() + 8) as u16).to_be_bytes());
        [&out[..], &[0; 4], body].concat()
    };
    client.received(&full(&head)).unwrap();
    assert_eq!(client.event(), Ok(None));
    for _ in 0..1_250 {
        for piece in part.chunks(4_088) {
            client.received(&full(piece)).unwrap();
            assert_eq!(client.event(), Ok(None));
            assert!(client.tokens_waiting() < 8, "{} bytes are kept", client.tokens_waiting());
        }
    }
    client.received(&reply(&[&[0; 4][..], &end(1)].concat(), 4_096)).unwrap();
    assert_eq!(client.event(), Ok(Some(Event::Row)));
    assert_eq!(client.event(), Ok(Some(Event::Done { rows: Some(1), failed: false })));
}

proptest! {
    /// Any table of any types, however its stream is cut into packets and pieces, and its rows are taken: the same rows, and the same end.
    #[test]
    fn chunking_does_not_change_the_outcome(
        picks in prop::collection::vec(0_usize..1_000, 1..12),
        values in prop::collection::vec(prop::collection::vec((any::<bool>(), 0_usize..10), 1..12), 0..12),
        names_nulls in any::<bool>(),
        size in 512_u16..5_000,
        pieces in prop::collection::vec(1_usize..3_000, 1..6),
        together in any::<bool>(),
    ) {
        let all = kinds();
        let kinds: Vec<Kind> = picks.iter().map(|pick| all[pick % all.len()].clone()).collect();
        let mut tokens = described(&kinds);
        for value in &values {
            tokens.extend(row(&kinds, value, names_nulls));
        }
        tokens.extend(end(values.len() as u64));
        let bytes = reply(&tokens, size);
        let mut client = ready();
        client.ask("x").unwrap();
        let (events, trouble) = outcome_of(&mut client, &bytes, &pieces, together);
        prop_assert_eq!(trouble, None);
        prop_assert_eq!(rows(&events), values.len());
        let expected = [Event::Done { rows: Some(values.len() as u64), failed: false }, Event::Over { stopped: false }];
        prop_assert_eq!(&events[values.len()..], &expected[..]);
        // What breaks off is waited for, and is no end.
        let mut client = ready();
        client.ask("x").unwrap();
        let cut = bytes.len() - 1 - pieces[0] % (bytes.len() - 1);
        let (events, trouble) = outcome_of(&mut client, &bytes[..cut], &pieces, together);
        prop_assert_eq!(trouble, None);
        let is_over = events.iter().any(|event| matches!(event, Event::Over { .. }));
        prop_assert!(!is_over);
    }
}
