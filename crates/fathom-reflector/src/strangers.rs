//! Who does not know the key is told of, so that who has mistaken the key of one end sees it at the other.

use crate::address::Protocol;
use crate::talk::note;
use std::net::SocketAddr;

/// Counts one that came, and tells of the first.
pub(crate) fn came(count: &mut u64, protocol: Protocol, peer: Option<SocketAddr>) {
    *count += 1;
    tell_of_the_first(*count, protocol, peer);
}

/// Tells of this one if it is the first; how many follow is up to them.
pub(crate) fn tell_of_the_first(number: u64, protocol: Protocol, peer: Option<SocketAddr>) {
    if number == 1 {
        let peer = peer.map_or_else(|| "a peer".to_owned(), |peer| peer.to_string());
        note(&format!(
            "refused {protocol} {peer}: it does not know the key (`fathom probe --key` with the same does); others are \
             counted, and told at the end"
        ));
    }
}
