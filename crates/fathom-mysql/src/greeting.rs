//! The beginning of a session: what the server says of itself, and what we ask for
//! (<https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase.html>).

use crate::auth::Plugin;
use crate::reading::{Reading, put_length, put_text, shown};
use crate::{Login, Trouble};

/// Capabilities, by the names that the protocol's description has for them. The first is not set by `MariaDB` alone where a client is
/// to have `MariaDB`'s own extensions.
const LONG_PASSWORD: u32 = 1;
const CONNECT_WITH_DB: u32 = 1 << 3;
const PROTOCOL_41: u32 = 1 << 9;
const SSL: u32 = 1 << 11;
const TRANSACTIONS: u32 = 1 << 13;
const SECURE_CONNECTION: u32 = 1 << 15;
const MULTI_STATEMENTS: u32 = 1 << 16;
const MULTI_RESULTS: u32 = 1 << 17;
const PLUGIN_AUTH: u32 = 1 << 19;
const CONNECT_ATTRS: u32 = 1 << 20;
const PLUGIN_AUTH_LENENC_CLIENT_DATA: u32 = 1 << 21;
const DEPRECATE_EOF: u32 = 1 << 24;
/// `utf8mb4_general_ci`.
const UTF8MB4: u8 = 45;
/// The longest packet that we would take, which servers do not heed.
const MAX_PACKET: u32 = 1 << 30;

/// What a login came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// What the server calls its version: `8.4.3`, `10.11.6-MariaDB`.
    pub version: String,
    /// The number of the session.
    pub connection: u32,
}

/// The server's first packet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Greeting {
    pub(crate) facts: Facts,
    pub(crate) capabilities: u32,
    pub(crate) challenge: Vec<u8>,
    pub(crate) plugin: Option<Plugin>,
}

impl Greeting {
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Trouble> {
        let mut reading = Reading(bytes);
        match reading.u8() {
            Some(10) => {}
            Some(9) => return Err(Trouble::TooOld),
            _ => return Err(Trouble::OtherProtocol),
        }
        Self::fields(&mut reading).ok_or(Trouble::Malformed("greeting"))
    }

    fn fields(reading: &mut Reading<'_>) -> Option<Self> {
        let version = shown(reading.text());
        // MariaDB says so to clients of old, which know no version 10.
        let version = version.strip_prefix("5.5.5-").unwrap_or(&version).to_owned();
        let connection = reading.u32()?;
        let mut challenge = reading.bytes(8)?.to_vec();
        reading.u8()?;
        let low = reading.u16()?;
        // The character set, and the state of the session.
        reading.bytes(3)?;
        let high = reading.u16()?;
        let capabilities = u32::from(high) << 16 | u32::from(low);
        let length = usize::from(reading.u8()?);
        reading.bytes(10)?;
        let rest = length.saturating_sub(8).max(13);
        let rest = reading.bytes(rest.min(reading.0.len()))?;
        challenge.extend_from_slice(rest.strip_suffix(b"\0").unwrap_or(rest));
        let plugin =
            if capabilities & PLUGIN_AUTH == 0 { Some(Plugin::Native) } else { Plugin::of(reading.text()) };
        Some(Self { facts: Facts { version, connection }, capabilities, challenge, plugin })
    }

    /// Whether the server can encrypt.
    pub(crate) fn encrypts(&self) -> bool {
        self.capabilities & SSL != 0
    }

    /// Whether it can do what is needed here.
    pub(crate) fn is_new_enough(&self) -> bool {
        let needed = PROTOCOL_41 | SECURE_CONNECTION;
        self.capabilities & needed == needed
    }

    /// What both ends know. A local file is never among it, nor is compression.
    pub(crate) fn agreed(&self, login: &Login, is_encrypted: bool) -> u32 {
        let mut ours = LONG_PASSWORD
            | PROTOCOL_41
            | TRANSACTIONS
            | SECURE_CONNECTION
            | MULTI_RESULTS
            | PLUGIN_AUTH
            | CONNECT_ATTRS
            | PLUGIN_AUTH_LENENC_CLIENT_DATA
            | DEPRECATE_EOF;
        for (capability, is_wanted) in [
            (SSL, is_encrypted),
            (CONNECT_WITH_DB, !login.database.is_empty()),
            (MULTI_STATEMENTS, login.several),
        ] {
            if is_wanted {
                ours |= capability;
            }
        }
        // MariaDB does not announce the first, and takes it.
        ours & (self.capabilities | LONG_PASSWORD)
    }
}

/// Whether results end by a packet of the kind OK.
pub(crate) fn ends_by_ok(capabilities: u32) -> bool {
    capabilities & DEPRECATE_EOF != 0
}

/// Asks for TLS: the beginning of a login.
pub(crate) fn ask_for_tls(capabilities: u32) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend_from_slice(&capabilities.to_le_bytes());
    out.extend_from_slice(&MAX_PACKET.to_le_bytes());
    out.push(UTF8MB4);
    out.extend_from_slice(&[0; 23]);
    out
}

/// `HandshakeResponse41`.
pub(crate) fn log_in(login: &Login, capabilities: u32, plugin: Plugin, proof: &[u8]) -> Vec<u8> {
    let mut out = ask_for_tls(capabilities);
    out.extend_from_slice(login.user.as_bytes());
    out.push(0);
    if capabilities & PLUGIN_AUTH_LENENC_CLIENT_DATA != 0 {
        put_text(&mut out, proof);
    } else {
        let proof = &proof[..proof.len().min(255)];
        out.push(proof.len() as u8);
        out.extend_from_slice(proof);
    }
    if capabilities & CONNECT_WITH_DB != 0 {
        out.extend_from_slice(login.database.as_bytes());
        out.push(0);
    }
    if capabilities & PLUGIN_AUTH != 0 {
        out.extend_from_slice(plugin.name().as_bytes());
        out.push(0);
    }
    if capabilities & CONNECT_ATTRS != 0 {
        let mut attributes = Vec::new();
        put_text(&mut attributes, b"program_name");
        put_text(&mut attributes, login.program.as_bytes());
        put_length(&mut out, attributes.len());
        out.extend_from_slice(&attributes);
    }
    out
}
