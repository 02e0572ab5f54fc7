use super::agreement::Limits;
use super::client::{self, Client};
use super::server::{self, Server};
use crate::codec::{Cookie, Parameters, Refusal, Results, State, StreamResult};
use proptest::prelude::*;

const LIMITS: Limits = Limits { longest_s: 60, streams: 256 };

fn asked() -> Parameters {
    Parameters { tcp: true, time_s: 10, parallel: 1, block: 131_072, ..Parameters::default() }
}

fn results(bytes: u64) -> Results {
    Results { streams: vec![StreamResult { id: 1, bytes, ..StreamResult::default() }], ..Results::default() }
}

/// One test between our two machines, every message in pieces of `piece` bytes; what each side did, in order.
fn whole_test(piece: usize) -> (Vec<client::Step>, Vec<server::Step>) {
    let (mut client, mut server) = (Client::new(asked()), Server::new(LIMITS));
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let mut to_client = Server::opening().to_vec();
    let mut to_server = Vec::new();
    while !(to_client.is_empty() && to_server.is_empty()) {
        for piece in std::mem::take(&mut to_client).chunks(piece) {
            for step in client.receive(piece).unwrap() {
                match &step {
                    client::Step::Send(bytes) => to_server.extend_from_slice(bytes),
                    client::Step::OpenStreams => to_client.extend(server.streams_are_there()),
                    client::Step::Begin => to_server.extend(client.end().unwrap()),
                    client::Step::GiveResults => to_server.extend(client.results(&results(7))),
                    client::Step::Finish(_) => to_server.extend(client::farewell()),
                }
                ours.push(step);
            }
        }
        for piece in std::mem::take(&mut to_server).chunks(piece) {
            for step in server.receive(piece).unwrap() {
                match &step {
                    server::Step::Send(bytes) => to_client.extend_from_slice(bytes),
                    server::Step::Stop => to_client.extend(server.drained()),
                    server::Step::GiveResults(_) => to_client.extend(server.results(&results(5))),
                    server::Step::AwaitStreams | server::Step::Finish => {}
                }
                theirs.push(step);
            }
        }
    }
    assert_eq!((client.closed(), server.closed()), (Ok(()), Ok(())));
    (ours, theirs)
}

#[test]
fn test_passes_phases_and_exchanges_results() {
    let (ours, theirs) = whole_test(usize::MAX);
    assert_eq!(
        ours,
        [
            client::Step::Send(asked().encode()),
            client::Step::OpenStreams,
            client::Step::Begin,
            client::Step::GiveResults,
            client::Step::Finish(results(5)),
        ]
    );
    assert_eq!(
        theirs,
        [
            server::Step::Send(vec![State::CreateStreams.byte()]),
            server::Step::AwaitStreams,
            server::Step::Stop,
            server::Step::GiveResults(results(7)),
            server::Step::Finish,
        ]
    );
}

proptest! {
    #[test]
    fn pieces_do_not_show(piece in 1..200_usize) {
        prop_assert_eq!(whole_test(piece), whole_test(usize::MAX));
    }

    #[test]
    fn chunking_does_not_change_the_failure(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        piece in 1..50_usize,
    ) {
        // The same failure, however the bytes come.
        let client = |piece: usize| {
            let mut client = Client::new(asked());
            bytes.chunks(piece).find_map(|piece| client.receive(piece).err())
        };
        prop_assert_eq!(client(piece), client(200));
        let server = |piece: usize| {
            let mut server = Server::new(LIMITS);
            bytes.chunks(piece).find_map(|piece| server.receive(piece).err())
        };
        prop_assert_eq!(server(piece), server(200));
    }
}

fn client_meets(bytes: &[u8]) -> client::Failure {
    let mut client = Client::new(asked());
    client.receive(bytes).err().or_else(|| client.closed().err()).expect("it fails")
}

#[test]
fn foreign_server_differs_from_refusing_one() {
    assert!(matches!(client_meets(b"HTTP/1.1 400 Bad Request\r\n"), client::Failure::Foreign(_)));
    let echoed = Client::opening(&Cookie::new([1, 2, 3, 4]));
    assert!(matches!(client_meets(&echoed), client::Failure::Foreign(_)));
    assert!(matches!(client_meets(b""), client::Failure::Foreign(_)));
    assert_eq!(client_meets(&Server::deny()), client::Failure::Busy);
    let mut refused = Server::opening().to_vec();
    refused.extend(Refusal::TOO_LONG.encode());
    assert_eq!(client_meets(&refused), client::Failure::Refused(Refusal::TOO_LONG));
    assert_eq!(client_meets(&refused[..7]), client::Failure::Vanished, "the numbers are cut off");
    assert_eq!(client_meets(&[9, 11]), client::Failure::Terminated);
    assert!(matches!(client_meets(&[9, 2]), client::Failure::Broken(_)));
}

fn server_meets(asked: &Parameters) -> Option<server::Failure> {
    Server::new(LIMITS).receive(&asked.encode()).err()
}

#[test]
fn unsupported_test_is_refused_with_iperf3_code() {
    let good = asked();
    assert_eq!(server_meets(&good), None);
    for (asked, code) in [
        (Parameters { tcp: false, ..good.clone() }, 13),
        (Parameters { tcp: false, sctp: true, ..good.clone() }, 18),
        (Parameters { authenticates: true, ..good.clone() }, 142),
        (Parameters { time_s: 55, omit_s: 6, ..good.clone() }, 5),
        (Parameters { parallel: 0, ..good.clone() }, 6),
        (Parameters { parallel: 129, ..good.clone() }, 6),
        (Parameters { block: (1 << 20) + 1, ..good.clone() }, 7),
        (Parameters { reverse: true, bidirectional: true, ..good.clone() }, 25),
    ] {
        let failure = server_meets(&asked);
        assert!(
            matches!(failure, Some(server::Failure::Refused(refusal, _)) if refusal.code == code),
            "{asked:?}: {failure:?}"
        );
    }
    let mut few = Server::new(Limits { streams: 3, ..LIMITS });
    let asked = Parameters { parallel: 2, bidirectional: true, ..good };
    assert!(few.receive(&asked.encode()).is_err(), "two each way are four");
}

#[test]
fn client_abort_and_disconnect_are_detected() {
    let mut server = Server::new(LIMITS);
    server.receive(&asked().encode()).unwrap();
    server.streams_are_there();
    assert_eq!(server.closed(), Err(server::Failure::Vanished));
    assert_eq!(server.receive(&[12]), Err(server::Failure::Terminated));

    let client = Client::new(asked());
    assert_eq!(client.terminate(), Some(vec![12]));
}

/// One message of 120 bytes with `"parallel":4294967295` was refused, and then the reflector allocated 4 to 8 GiB: what was
/// asked was stored before it was checked, and sized the list of streams when the refused test was counted.
#[test]
fn what_was_refused_is_not_kept() {
    for parallel in [u32::MAX, 129, 0] {
        for bidirectional in [false, true] {
            let mut server = Server::new(LIMITS);
            let refused = server.receive(&Parameters { parallel, bidirectional, ..asked() }.encode());
            assert!(matches!(refused, Err(server::Failure::Refused(Refusal::TOO_MANY_STREAMS, _))));
            assert_eq!(server.agreement(), None);
        }
    }
}

fn hostile_parameters() -> impl Strategy<Value = Parameters> {
    let number = prop_oneof![0..300_u32, any::<u32>(), Just(u32::MAX)];
    let numbers = [number.clone(), number.clone(), number.clone(), number];
    (any::<[bool; 7]>(), numbers, prop::option::of(any::<u64>())).prop_map(|(on, number, bitrate)| {
        Parameters {
            tcp: on[0],
            sctp: on[1] && on[2],
            authenticates: on[3] && on[2],
            reverse: on[4],
            bidirectional: on[5],
            drains: on[6],
            omit_s: number[0],
            time_s: number[1],
            parallel: number[2],
            block: number[3],
            bitrate,
            ..Parameters::default()
        }
    })
}

proptest! {
    #[test]
    fn agreement_stays_within_limits(
        asked in hostile_parameters(),
        longest_s in 1..1_000_u32,
        streams in 1..=256_u32,
    ) {
        let mut server = Server::new(Limits { longest_s, streams });
        let answer = server.receive(&asked.encode());
        match server.agreement() {
            None => prop_assert!(matches!(answer, Err(server::Failure::Refused(..)))),
            Some(agreement) => {
                prop_assert!((1..=streams as usize).contains(&agreement.server_sends().len()));
                prop_assert!((1..=128).contains(&agreement.parallel()));
                prop_assert!((1..=1 << 20).contains(&agreement.block()));
                prop_assert!(agreement.seconds().is_none_or(|seconds| seconds <= longest_s));
                prop_assert!(agreement.omit_s() <= longest_s);
                prop_assert_eq!(answer.map(|steps| steps.len()), Ok(2));
            }
        }
    }
}
