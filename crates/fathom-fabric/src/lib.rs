//! An emulated network between hosts: packets in with a time, packets out with a later one.
//!
//! Nothing here opens a socket, reads a clock or touches a file. Whoever drives a [`world::World`] tells it what time it is: the
//! driver in `fathom-emulator` with real packets of network namespaces and the monotonic clock, a test with packets of
//! its own and hours that pass in milliseconds.
//!
//! A world is made of **nodes** (hosts, and middleboxes: load balancer, firewall, NAT, private endpoint, gateway) and
//! **legs** between two nodes, each with a model per direction (delay, jitter, loss, rate...). A path of the scenario
//! ("from, to, via") is a chain of legs. A packet is forwarded node by node, at each by its source and destination address.
//!
//! Times are nanoseconds of the driver's monotonic clock.

pub mod event;
pub mod id;
pub mod model;
pub mod packet;
pub mod scenario;
pub mod simulate;
pub mod stage;
pub mod truth;
pub mod world;
