//! The fabric's middleboxes beside real ones: the same packets go through a model in virtual time and through a kernel's
//! connection tracking (nftables) or `HAProxy`, and what becomes of them must be the same.
//!
//! A network namespace with two TUN devices is the real firewall, NAT or balancer: what is written into one device and
//! forwarded is read from the other, a RST from the one it went in. A datagram sent after each packet, which the rules always
//! let through, tells when nothing more will come. Where a test waits, the idle limit is what it tries, with a wide margin.

mod boxes;
mod conntrack;
mod haproxy;
mod script;
