//! `--stamp`: samples are STAMP packets (RFC 8762), which reflectors of other makers answer.

use crate::exit::Failure;
use fathom_core::loss::Reflector;
use fathom_wire::rfc8762::{PACKET_LEN, TLV_HEADER_LEN, is_length};

/// Arguments of STAMP.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct StampArgs {
    /// Send STAMP test packets (RFC 8762, unauthenticated), over UDP to port 862 unless given: `fathom echo --stamp`, routers, TWAMP Light
    #[arg(long, conflicts_with_all = ["udp", "tcp", "connect"], help_heading = "Special kinds of runs")]
    stamp: bool,
    /// Whether the STAMP reflector counts (`stateful`: the count tells which way packets were lost) or repeats the packet's number (`stateless`); `auto`: it counts as soon as that shows
    #[arg(
        long,
        value_name = "KIND",
        requires = "stamp",
        default_value = "auto",
        help_heading = "Special kinds of runs"
    )]
    stamp_reflector: Kind,
}

/// What a STAMP reflector does with its sequence number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    Auto,
    Stateful,
    Stateless,
}

impl StampArgs {
    /// The reflector, if samples are STAMP packets.
    pub(super) fn reflector(&self) -> Option<Reflector> {
        self.stamp.then_some(match self.stamp_reflector {
            Kind::Auto => Reflector::Unsure,
            Kind::Stateful => Reflector::Stateful,
            Kind::Stateless => Reflector::Stateless,
        })
    }
}

/// The size of samples, the smallest of a sweep: a packet and, if it is longer, one extension.
pub(super) fn size(given: Option<u64>, sizes: &[u32]) -> Result<u32, Failure> {
    let given = given.map(|size| size as u32);
    let asked: Vec<u32> = if sizes.is_empty() { given.into_iter().collect() } else { sizes.to_vec() };
    if let Some(wrong) = asked.iter().find(|&&size| !is_length(size as usize)) {
        let longer = PACKET_LEN + TLV_HEADER_LEN;
        return Err(Failure::usage(format!(
            "{wrong} bytes: a STAMP packet is {PACKET_LEN} bytes (the default), or {longer} and more with an extension"
        )));
    }
    Ok(asked.first().copied().unwrap_or(PACKET_LEN as u32))
}
