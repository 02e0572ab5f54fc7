//! Samples that are STAMP packets (RFC 8762).

use crate::probe::settings::Request;
use crate::stream::Stream;

/// A stream of this run's kind of messages.
pub(in crate::probe) fn of_kind(stream: Stream, request: Request) -> Stream {
    let Request::Stamp(reflector) = request else { return stream };
    // 0 would say that there is no identifier (RFC 8972, section 3).
    let key = stream.key();
    let session = (key.session ^ key.connection.wrapping_mul(0x9E37)) as u16 | 1;
    stream.of_stamp(session, reflector)
}
