//! UDP: one datagram in, at most one of the same length out.
//!
//! Which datagrams get an answer, and why none can be used against others, is in [`crate::guard`].
//!
//! The kernel is asked where a datagram was sent to (Linux), so that one datagram to a broadcast address or a group is
//! not answered by every reflector there. Elsewhere groups do not reach the sockets either (see `listen`), but a
//! broadcast does, where a socket listens on every address: there, listen on one.

use crate::address::Protocol;
use crate::connection::{Connection, Shared};
use crate::flows::{Flows, Others};
use crate::frame::{Frame, frame_of};
use crate::guard::Guard;
use crate::stamp::Sessions;
use crate::strangers;
use crate::tally::Tally;
use fathom_os::clock::mono_ns;
use fathom_os::socket::{Datagram, recv_datagram};
use fathom_wire::frame::{IDENTITY_LEN, Identity};
use fathom_wire::{HEADER_LEN, Key, Stamper};
use mio::net::UdpSocket;
use std::io;

/// Datagrams of one socket before the others get their turn.
const DATAGRAMS_A_TURN: usize = 64;
/// What serving datagrams needs besides the sockets.
#[derive(Debug)]
pub(crate) struct Datagrams {
    guard: Guard,
    /// When the last datagram came, by the monotonic clock.
    pub(crate) active_ns: Option<u64>,
}

impl Datagrams {
    pub(crate) fn new(guard: Guard) -> Self {
        Self { guard, active_ns: None }
    }

    /// Answers what there is, up to the socket's share; whether more may be there.
    pub(crate) fn turn(
        &mut self,
        socket: &UdpSocket,
        mut stamp: Option<&mut Sessions>,
        shared: &mut Shared,
        flows: &mut Flows,
        slots: &[Option<Connection>],
        tally: &mut Tally,
    ) -> bool {
        for _ in 0..DATAGRAMS_A_TURN {
            let Datagram { length: len, peer, to_many, ttl } =
                match recv_datagram(socket, &mut shared.scratch) {
                    Ok(received) => received,
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => return false,
                    // What an ICMP message said of an earlier answer, on systems that tell. The socket goes on.
                    Err(_) => continue,
                };
            let received_ns = mono_ns();
            self.active_ns = Some(received_ns);
            if to_many == Some(true) {
                tally.datagrams_refused.address += 1;
                continue;
            }
            let bytes = &shared.scratch[..len];
            let refused = &mut tally.datagrams_refused;
            let before = refused.key;
            if let Some(count) = self.guard.refusal(bytes, stamp.is_some(), peer, received_ns, refused) {
                *count += 1;
                if refused.key > before {
                    strangers::tell_of_the_first(refused.key, Protocol::Udp, Some(peer));
                }
                continue;
            }
            if self.guard.is_keyed() {
                // The code has been looked at: from here on it is a request like any other.
                shared.scratch[IDENTITY_LEN..HEADER_LEN].fill(0);
            }
            if let Some(sessions) = &mut stamp {
                let view = shared.clock.view(received_ns);
                if !sessions.answer(&mut shared.scratch[..len], peer, ttl, view, received_ns) {
                    tally.datagrams_refused.short += 1;
                    continue;
                }
                tally.stamp_packets += 1;
            } else {
                prepare(shared, flows, slots, len, received_ns);
            }
            match socket.send_to(&shared.scratch[..len], peer) {
                Ok(sent) => {
                    tally.datagrams += 1;
                    shared.bytes += sent as u64;
                }
                // No room in the socket's buffer, or no route back: a datagram may be lost, as UDP is.
                Err(_) => tally.datagrams_refused.unsent += 1,
            }
        }
        true
    }
}

/// Makes the datagram in the scratch buffer its own echo: stamps a frame, with the number of those of its connection
/// that came before it, and answers a question.
fn prepare(
    shared: &mut Shared,
    flows: &mut Flows,
    slots: &[Option<Connection>],
    len: usize,
    received_ns: u64,
) {
    let bytes = &mut shared.scratch[..len];
    let Some(frame) = frame_of(bytes) else { return };
    let view = shared.clock.view(received_ns);
    let mut stamper = Stamper::default();
    if let Frame::Echo(Identity { session, connection, sequence, .. }) = frame {
        stamper = Stamper::after(flows.datagram(Key { session, connection }, sequence, view.received_ns));
        shared.frames += 1;
    } else {
        shared.questions += 1;
    }
    let others = Others::all(slots);
    stamper.pass_answering(view, bytes, |question| flows.reply(question, &others, &shared.clock));
}
