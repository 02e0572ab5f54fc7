//! Bytes on their way back: stamped and answered at the moment that the kernel takes them.

use crate::clock::Clock;
use fathom_os::socket::write_now;
use fathom_wire::{Question, Reply, Stamper};
use mio::net::TcpStream;
use std::io::{self, Write};

/// Gives the answer to a question, if there is one to give.
pub(crate) type Ask<'a> = &'a dyn Fn(&Question, &Clock) -> Option<Reply>;

/// Writes what the kernel takes at once, whatever the stream's own mode.
pub(crate) struct AtOnce<'a>(pub(crate) &'a TcpStream);

impl Write for AtOnce<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        write_now(self.0, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Stamps, answers and writes; returns how many bytes went and how many answers began with them. The stamper has then
/// passed exactly those bytes.
pub(crate) fn send(
    out: &mut impl Write,
    stamper: &mut Stamper,
    clock: &Clock,
    received_mono_ns: u64,
    bytes: &mut [u8],
    ask: Ask<'_>,
) -> io::Result<(usize, u64)> {
    let before = stamper.clone();
    let view = clock.view(received_mono_ns);
    let mut answers = Vec::new();
    stamper.pass_answering(view, bytes, |question| {
        let answer = ask(question, clock);
        answers.push(answer);
        answer
    });
    let written = loop {
        match out.write(bytes) {
            Ok(written) => break written,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => break 0,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    };
    let mut answered = answers.iter().flatten().count() as u64;
    if written < bytes.len() {
        // The rest is stamped anew when it goes. Passing the same bytes again with the same view and the same answers
        // writes the same.
        *stamper = before;
        let mut again = answers.iter().copied();
        stamper.pass_answering(view, &mut bytes[..written], |_| again.next().flatten());
        answered -= again.flatten().count() as u64;
    }
    Ok((written, answered))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_os::clock::mono_ns;
    use fathom_wire::{About, Answer, Checker, Integrity, Key};
    use std::cell::Cell;

    /// Takes so many bytes a write, then would block.
    struct Narrow {
        room: usize,
        taken: Vec<u8>,
    }

    impl Write for Narrow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.room == 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let len = self.room.min(bytes.len());
            self.taken.extend_from_slice(&bytes[..len]);
            self.room -= len;
            Ok(len)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn delayed_bytes_are_stamped_when_sent() {
        let key = Key { session: 9, connection: 1 };
        for first in [0, 1, 31, 32, 40, 63, 64, 65, 100, 127] {
            let mut bytes = vec![0; 128];
            let (one, two) = bytes.split_at_mut(64);
            key.fill(0, 64, 0, one);
            key.fill(1, 64, 0, two);
            let clock = Clock::new(7);
            let mut stamper = Stamper::default();
            let received = mono_ns();
            let mut out = Narrow { room: first, taken: Vec::new() };
            let ask = &|_: &Question, _: &Clock| None;
            let written = send(&mut out, &mut stamper, &clock, received, &mut bytes, ask).expect("written");
            assert_eq!(written, (first, 0));
            let between = clock.view(received).sent_ns;
            out.room = 1_000;
            let rest = 128 - first;
            let written = send(&mut out, &mut stamper, &clock, received, &mut bytes[first..], ask);
            assert_eq!(written.expect("written"), (rest, 0));
            assert_eq!(stamper.frames(), 2, "each frame counts once");
            for (sequence, echo) in out.taken.chunks(64).enumerate() {
                let (_, verdict) = Checker::default().feed(key, sequence as u64, 64, echo);
                let Some(Integrity::Intact(Some(stamps))) = verdict else { panic!("{first}: {verdict:?}") };
                // A frame's stamp is fixed with the first byte of the reflector's part, at 32.
                let went_first = first > sequence * 64 + 32;
                assert_eq!(stamps.sent_ns < between, went_first, "first write of {first}, frame {sequence}");
            }
        }
    }

    #[test]
    fn answer_sent_in_pieces_counts_once() {
        let question = Question { session: 9, connection: 1, number: 0, about: About::Connection };
        for first in [0, 31, 32, 33, 63, 64, 80, 96, 100, 127] {
            // What is asked about changes between two looks.
            let looks = Cell::new(0);
            let ask = &|_: &Question, _: &Clock| {
                looks.set(looks.get() + 1);
                Some(Reply::Connection(Answer { last_seq: looks.get(), ..Answer::default() }))
            };
            let mut bytes = [question.encode(), question.encode()].concat();
            let (clock, mut stamper, received) = (Clock::new(7), Stamper::default(), mono_ns());
            let mut out = Narrow { room: first, taken: Vec::new() };
            let (_, early) =
                send(&mut out, &mut stamper, &clock, received, &mut bytes, ask).expect("written");
            out.room = 1_000;
            let (_, late) =
                send(&mut out, &mut stamper, &clock, received, &mut bytes[first..], ask).expect("written");
            assert_eq!(early + late, 2, "each is counted once, first write of {first}");
            for echo in out.taken.chunks(64) {
                let answer = Answer::decode(echo.last_chunk().expect("32 bytes"));
                assert!(matches!(answer, Ok(Some(_))), "first write of {first}: {answer:?}");
            }
        }
    }
}
