//! What the protocol allows, and what it leaves to us.

/// The port where iperf3's servers listen unless told otherwise.
pub const PORT: u16 = 5201;
/// The longest document that is taken. 128 streams of results are about 30 kB; a server's own output, for which we do
/// not ask, would be longer.
pub const MAX_DOCUMENT: usize = 256 << 10;
/// Parallel streams each way that iperf3 allows ("number of parallel streams too large (maximum = 128)").
pub const MAX_PARALLEL: u32 = 128;
/// Bytes of a block that iperf3 allows ("block size too large (maximum = 1048576 bytes)").
pub const MAX_BLOCK: u32 = 1 << 20;
/// Bytes of a block where nobody says, as iperf3 has it for TCP.
pub const DEFAULT_BLOCK: u32 = 128 << 10;
