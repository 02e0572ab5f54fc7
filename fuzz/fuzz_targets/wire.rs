//! Arbitrary bytes in arbitrary pieces through the wire code, held against its laws.
#![no_main]

use fathom_wire::message::{Checker, Key, Integrity};
use fathom_wire::rfc8762::{ErrorEstimate, PACKET_LEN, Reflected, Reflection, Sent};
use fathom_wire::{
    About, Answer, ConnectionView, HEADER_LEN, Identity, Introduction, Question, ReflectorStamps, Reply, Stamper, Standing,
};
use libfuzzer_sys::fuzz_target;

const VIEW: ConnectionView = ConnectionView { received_ns: 5, sent_ns: 9, pause_us: 3, identity: 7, waited: true, epoch: 1, tells_pauses: true };

/// An answer that depends on the question alone, as in a reflector whose state does not change.
fn answer(question: &Question) -> Option<Reply> {
    let standing = if question.connection == 0 { Standing::NotKnown } else { Standing::Open };
    let reply = match question.about {
        About::Connection => Reply::Connection(Answer { standing, last_seq: question.number, ..Answer::default() }),
        About::Reflector => Reply::Reflector(Introduction { age_ns: question.number, ..Introduction::default() }),
    };
    (question.session != 0).then_some(reply)
}

fn pass(bytes: &[u8], chunk: usize) -> (Vec<u8>, Stamper) {
    let mut out = bytes.to_vec();
    let mut stamper = Stamper::default();
    out.chunks_mut(chunk).for_each(|piece| stamper.pass_answering(VIEW, piece, answer));
    (out, stamper)
}

fuzz_target!(|data: &[u8]| {
    let [chunk, sizes, connection, rest @ ..] = data else { return };
    let chunk = usize::from(*chunk) + 1;

    // The reflector: the pieces in which a stream arrives do not show in what it echoes; the length never changes.
    let (whole, one) = pass(rest, rest.len().max(1));
    let (pieces, many) = pass(rest, chunk);
    assert_eq!(whole, pieces);
    assert_eq!((one.frames(), one.is_plain()), (many.frames(), many.is_plain()));
    let asked = rest.first_chunk::<32>().and_then(Question::decode);
    if one.frames() == 0 && asked.is_none() {
        assert_eq!(whole, rest, "a foreign stream passes untouched");
    }
    if let (Some(question), Some(part)) = (asked, whole.get(32..64).and_then(|part| part.first_chunk::<32>()))
    {
        assert_eq!(whole[..32], rest[..32], "a question stays whole");
        match answer(&question) {
            Some(reply) => assert_eq!(Reply::decode(part), Ok(Some(reply))),
            None => assert_eq!(part[..], rest[32..64], "unanswered it passes untouched"),
        }
    }

    // What decodes encodes to the same bytes.
    if let Some(bytes) = rest.first_chunk::<32>() {
        if let Some(identity) = Identity::decode(bytes) {
            assert_eq!(identity.encode(), *bytes);
        }
        if let Some(question) = Question::decode(bytes) {
            assert_eq!(question.encode()[..32], *bytes);
        }
        if let Ok(Some(answer)) = Answer::decode(bytes) {
            assert_eq!(answer.encode(), *bytes);
        }
        if let Ok(Some(stamps)) = ReflectorStamps::decode(bytes) {
            assert!(stamps.residence_ns() >= 0 || stamps.sent_ns.checked_sub(stamps.received_ns).is_none());
        }
    }

    // The probe: an echo of arbitrary bytes is intact only if it is what was sent, stamps aside.
    let (key, size) = (Key { session: 7, connection: (*connection).into() }, u32::from(*sizes) + 1);
    let mut sent = vec![0; size as usize];
    key.fill(1, size, 0, &mut sent);
    let mut checker = Checker::default();
    let mut at = 0;
    for piece in rest.chunks(chunk) {
        let (taken, verdict) = checker.feed(key, 1, size, piece);
        at += taken;
        if let Some(verdict) = verdict {
            let echo = &rest[..size as usize];
            let same =
                echo.iter().zip(&sent).enumerate().all(|(i, (a, b))| {
                    a == b || (size as usize >= HEADER_LEN && (32..HEADER_LEN).contains(&i))
                });
            assert!(same || verdict == Integrity::Corrupted);
            break;
        }
        assert_eq!(checker.position() as usize, at);
    }

    // STAMP: an answer is as long as its packet and repeats what was sent; no bytes panic.
    let mut packet = rest.to_vec();
    let error = ErrorEstimate::of((*sizes > 0).then_some(u64::from(*sizes) << (connection & 31)));
    let reflection = Reflection { sequence: Some(3), received_ns: 5, sent_ns: 9, error, ttl: *connection };
    let answered = reflection.write(&mut packet);
    assert_eq!(packet.len(), rest.len());
    assert_eq!(answered, rest.len() >= PACKET_LEN);
    if let (Some(sent), Some(read)) = (Sent::decode(rest), Reflected::decode(&packet)) {
        assert_eq!((read.sender_sequence, read.sender_timestamp), (sent.sequence, sent.timestamp));
        assert_eq!((read.sequence, read.received_ns, read.sent_ns), (3, 5, 9));
        assert!(
            sent.error
                .bound_ns()
                .is_none_or(|ns| ErrorEstimate::of(Some(ns)).bound_ns() >= Some(ns) || ns > 1 << 60)
        );
    }
    let _ = Reflected::decode(rest);

    // And what was sent, through the reflector, is intact.
    let (echo, _) = pass(&sent, chunk);
    let verdict = Checker::default().feed(key, 1, size, &echo).1;
    assert!(
        matches!(verdict, Some(Integrity::Intact(stamps)) if stamps.is_some() == (size as usize >= HEADER_LEN))
    );
});
