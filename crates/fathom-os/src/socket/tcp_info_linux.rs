//! The kernel's view of a connection, by `getsockopt(TCP_INFO)`.

use super::{ReceiveRoom, Segments, TransferTimes};
use fathom_core::event::TcpInfo;
use std::os::fd::AsRawFd;

/// The head of `struct tcp_info` in `linux/tcp.h` up to the last field read here. The kernel only ever appends to it,
/// and copies as much as the caller has room for. (The C libraries' own declarations end before `min_rtt`.)
#[repr(C)]
#[derive(Default)]
struct Raw {
    state: u8,
    ca_state: u8,
    retransmits: u8,
    probes: u8,
    backoff: u8,
    options: u8,
    wscale: u8,
    flags: u8,
    rto: u32,
    ato: u32,
    snd_mss: u32,
    rcv_mss: u32,
    unacked: u32,
    sacked: u32,
    lost: u32,
    retrans: u32,
    fackets: u32,
    last_data_sent: u32,
    last_ack_sent: u32,
    last_data_recv: u32,
    last_ack_recv: u32,
    pmtu: u32,
    rcv_ssthresh: u32,
    rtt: u32,
    rttvar: u32,
    snd_ssthresh: u32,
    snd_cwnd: u32,
    advmss: u32,
    reordering: u32,
    rcv_rtt: u32,
    rcv_space: u32,
    total_retrans: u32,
    pacing_rate: u64,
    max_pacing_rate: u64,
    bytes_acked: u64,
    bytes_received: u64,
    segs_out: u32,
    segs_in: u32,
    notsent_bytes: u32,
    min_rtt: u32,
    data_segs_in: u32,
    data_segs_out: u32,
    delivery_rate: u64,
    busy_time: u64,
    rwnd_limited: u64,
    sndbuf_limited: u64,
    delivered: u32,
    delivered_ce: u32,
    bytes_sent: u64,
    bytes_retrans: u64,
    dsack_dups: u32,
    reord_seen: u32,
    rcv_ooopack: u32,
    snd_wnd: u32,
    rcv_wnd: u32,
}

/// The kernel's view of this connection now. None on an error, or on a kernel whose structure ends before
/// `total_retrans` (older than Linux 2.6). `min_rtt_us` and `notsent_bytes` are 0 before Linux 4.6,
/// `bytes_acked` and `bytes_received` before 4.1, `data_segs_in` before 4.6 and `rcv_ooopack` before 5.4.
///
/// Ask while the connection lives: after its error, `backoff` and `unacked` read 0.
pub fn tcp_info(stream: &impl AsRawFd) -> Option<TcpInfo> {
    let (raw, length) = ask(stream)?;
    if length < std::mem::offset_of!(Raw, pacing_rate) {
        return None;
    }
    Some(TcpInfo {
        srtt_us: raw.rtt,
        rttvar_us: raw.rttvar,
        // The kernel says "not measured yet" by the largest number.
        min_rtt_us: if raw.min_rtt == u32::MAX { 0 } else { raw.min_rtt },
        rto_us: raw.rto,
        retransmits: raw.retransmits,
        backoff: raw.backoff,
        total_retrans: raw.total_retrans,
        unacked: raw.unacked,
        notsent_bytes: raw.notsent_bytes,
        snd_cwnd: raw.snd_cwnd,
        snd_mss: raw.snd_mss,
        reordering: raw.reordering,
        last_data_recv_ms: raw.last_data_recv,
        last_ack_recv_ms: raw.last_ack_recv,
        bytes_acked: raw.bytes_acked,
        rcv_ooopack: raw.rcv_ooopack,
        bytes_received: raw.bytes_received,
        data_segs_in: raw.data_segs_in,
    })
}

/// The segments that this end of the connection sent. None on an error, or on a kernel whose structure ends before `total_retrans`.
pub fn segments_sent(stream: &impl AsRawFd) -> Option<Segments> {
    let (raw, length) = ask(stream)?;
    (length >= std::mem::offset_of!(Raw, pacing_rate)).then_some(Segments {
        sent: (length >= std::mem::offset_of!(Raw, delivery_rate)).then_some(raw.data_segs_out),
        again: raw.total_retrans,
    })
}

/// Who held up what this end of the connection had to send, since it was made. None on an error, or before Linux 4.10, which does
/// not tell.
pub fn transfer_times(stream: &impl AsRawFd) -> Option<TransferTimes> {
    let (raw, length) = ask(stream)?;
    (length >= std::mem::offset_of!(Raw, delivered)).then_some(TransferTimes {
        busy_us: raw.busy_time,
        rwnd_limited_us: raw.rwnd_limited,
        sndbuf_limited_us: raw.sndbuf_limited,
    })
}

/// What this end of the connection can take. None on an error, or before Linux 6.2, which does not tell.
pub fn receive_room(stream: &impl AsRawFd) -> Option<ReceiveRoom> {
    let (raw, length) = ask(stream)?;
    let end = std::mem::offset_of!(Raw, rcv_wnd) + size_of::<u32>();
    (length >= end).then_some(ReceiveRoom {
        bytes_received: raw.bytes_received,
        window_bytes: raw.rcv_wnd,
        segment_bytes: raw.rcv_mss,
    })
}

/// What the kernel tells, and how many bytes of it.
fn ask(stream: &impl AsRawFd) -> Option<(Raw, usize)> {
    let mut raw = Raw::default();
    let mut length = size_of::<Raw>() as libc::socklen_t;
    // SAFETY: `raw` and `length` are valid for writes during the call, `length` is the size of `raw`, every bit
    // pattern is a valid `Raw`, and what a shorter structure leaves unwritten is zero already.
    let outcome = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut raw).cast(),
            &raw mut length,
        )
    };
    (outcome == 0).then_some((raw, length as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_the_kernels() {
        // Offsets counted by hand in linux/tcp.h; the C library agrees on those it declares.
        assert_eq!(std::mem::offset_of!(Raw, min_rtt), 148);
        assert_eq!(std::mem::offset_of!(Raw, bytes_acked), 120);
        assert_eq!(std::mem::offset_of!(Raw, bytes_received), 128);
        assert_eq!(std::mem::offset_of!(Raw, data_segs_in), 152);
        assert_eq!(std::mem::offset_of!(Raw, data_segs_out), 156);
        assert_eq!(std::mem::offset_of!(Raw, busy_time), 168);
        assert_eq!(std::mem::offset_of!(Raw, delivered), 192);
        assert_eq!(std::mem::offset_of!(Raw, rcv_ooopack), 224);
        assert_eq!(std::mem::offset_of!(Raw, rcv_wnd), 232);
        assert_eq!(std::mem::offset_of!(Raw, rto), std::mem::offset_of!(libc::tcp_info, tcpi_rto));
        assert_eq!(std::mem::offset_of!(Raw, rtt), std::mem::offset_of!(libc::tcp_info, tcpi_rtt));
        assert_eq!(
            std::mem::offset_of!(Raw, total_retrans),
            std::mem::offset_of!(libc::tcp_info, tcpi_total_retrans)
        );
    }
}
