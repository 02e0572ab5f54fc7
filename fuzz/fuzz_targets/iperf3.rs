//! Arbitrary bytes in arbitrary pieces through iperf3's control protocol, both ends, held against its laws.
#![no_main]

use fathom_iperf3::codec::{Inbox, MAX_BLOCK, Parameters, Results};
use fathom_iperf3::machine::agreement::Limits;
use fathom_iperf3::machine::client::{self, Client};
use fathom_iperf3::machine::server::{self, Server};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

/// The document in these bytes, which are one.
fn reread(bytes: &[u8]) -> Value {
    let mut inbox = Inbox::default();
    inbox.feed(bytes);
    inbox.document().expect("ours is sound").expect("and whole")
}

fn client(bytes: &[u8], chunk: usize) -> (Vec<client::Step>, Option<client::Failure>) {
    let mut client = Client::new(Parameters { tcp: true, parallel: 1, ..Parameters::default() });
    let mut done = Vec::new();
    for piece in bytes.chunks(chunk) {
        match client.receive(piece) {
            Ok(steps) => {
                for step in steps {
                    match &step {
                        client::Step::Begin => drop(client.end()),
                        client::Step::GiveResults => drop(client.results(&Results::default())),
                        _ => {}
                    }
                    done.push(step);
                }
            }
            Err(failure) => return (done, Some(failure)),
        }
    }
    (done, None)
}

fn server(bytes: &[u8], chunk: usize) -> (bool, Option<server::Failure>) {
    let mut server = Server::new(Limits { longest_s: 60, streams: 8 });
    for piece in bytes.chunks(chunk) {
        match server.receive(piece) {
            Ok(steps) => {
                for step in steps {
                    match step {
                        server::Step::AwaitStreams => {
                            let agreement = server.agreement().expect("streams are awaited");
                            assert!((1..=8).contains(&agreement.server_sends().len()));
                            assert!((1..=MAX_BLOCK).contains(&agreement.block()));
                            assert!(agreement.seconds().is_none_or(|seconds| seconds <= 60));
                            server.streams_are_there();
                        }
                        server::Step::Stop => {
                            server.drained();
                        }
                        server::Step::GiveResults(_) => drop(server.results(&Results::default())),
                        server::Step::Finish => return (true, None),
                        server::Step::Send(_) => {}
                    }
                }
            }
            Err(failure) => {
                assert!(matches!(failure, server::Failure::Refused(..)) <= server.agreement().is_none());
                return (false, Some(failure));
            }
        }
    }
    (false, None)
}

fuzz_target!(|data: &[u8]| {
    let [chunk, rest @ ..] = data else { return };
    let chunk = usize::from(*chunk) + 1;

    // A byte at a time or in larger pieces: what a machine does between two answers of its caller may not differ. (In one
    // piece a peer could say what it cannot know yet; a machine then fails, at the latest where pieces would have.)
    let (steps, _) = client(rest, 1);
    let (in_pieces, failure) = client(rest, chunk);
    assert!(failure.is_some() || steps.starts_with(&in_pieces) || in_pieces.starts_with(&steps));
    let _ = server(rest, 1);
    let _ = server(rest, chunk);

    // What decodes encodes to something that decodes to the same.
    let mut inbox = Inbox::default();
    inbox.feed(rest);
    if let Ok(Some(document)) = inbox.document() {
        if let Ok(parameters) = Parameters::decode(&document) {
            assert_eq!(Parameters::decode(&reread(&parameters.encode())), Ok(parameters));
        }
        if let Ok(results) = Results::decode(&document) {
            let again = Results::decode(&reread(&results.encode())).expect("ours is sound");
            assert_eq!(again.streams.len(), results.streams.len());
            for (a, b) in again.streams.iter().zip(&results.streams) {
                assert_eq!((a.id, a.bytes, a.retransmits), (b.id, b.bytes, b.retransmits));
            }
        }
    }
});
