//! The login (MS-TDS 2.2.6.4). The password is not looked at: this server guards nothing, and keeps nothing of it.

use super::packet::{AT_FIRST, LARGEST, SMALLEST};
use super::{Reader, Refusal, text};

/// TDS 7.2, the oldest that is served.
const OLDEST: u32 = 0x7209_0002;
/// TDS 7.4, the newest.
const NEWEST: u32 = 0x7400_0004;
/// The client shows a ticket instead of a password.
const INTEGRATED: u8 = 0x80;

/// What a login asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// The version that both will speak.
    pub version: u32,
    /// The size of packets that is granted: what was asked for, within the protocol's bounds.
    pub packet: u16,
    /// The database that was named.
    pub database: String,
    /// The program that logs in, as it says.
    pub program: String,
}

impl Login {
    /// Reads a client's.
    pub fn read(body: &[u8]) -> Result<Self, Refusal> {
        Self::fields(body).ok_or(Refusal::Torn("login"))?
    }

    fn fields(body: &[u8]) -> Option<Result<Self, Refusal>> {
        let mut fields = Reader(body);
        let length = fields.u32()?;
        if usize::try_from(length).ok()? > body.len() {
            return None;
        }
        let version = fields.u32()?;
        if version < OLDEST {
            // 7.0 and 7.1 have their number in the low nibbles: 0x71000001.
            let [major, ..] = version.to_be_bytes();
            return Some(Err(Refusal::Version { major: major >> 4, minor: major & 0x0F }));
        }
        let asked = fields.u32()?;
        // The program's version, its process, the connection that is replaced, and the first flags.
        fields.bytes(13)?;
        let flags = fields.u8()?;
        if flags & INTEGRATED != 0 {
            return Some(Err(Refusal::Integrated));
        }
        // Two more bytes of flags, the time zone, the locale.
        fields.bytes(10)?;
        let field = |fields: &mut Reader| {
            let (offset, units) = (usize::from(fields.u16()?), usize::from(fields.u16()?));
            body.get(offset..offset + 2 * units)
        };
        let (_host, _user, _password) = (field(&mut fields)?, field(&mut fields)?, field(&mut fields)?);
        let program = text(field(&mut fields)?);
        let _server = field(&mut fields)?;
        // Where extensions are: none is needed to serve a client.
        fields.bytes(4)?;
        let (_library, _language) = (field(&mut fields)?, field(&mut fields)?);
        let database = text(field(&mut fields)?);
        Some(Ok(Self { version: version.min(NEWEST), packet: granted(asked), database, program }))
    }
}

/// What is granted to who asks for so much; 0 asks for what the server likes.
fn granted(asked: u32) -> u16 {
    match asked {
        0 => AT_FIRST,
        _ => u16::try_from(asked).unwrap_or(LARGEST).clamp(SMALLEST, LARGEST),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tds_protocol::login7::Login7;
    use tds_protocol::version::TdsVersion;

    fn login(packet: u32) -> Login7 {
        Login7::new()
            .with_sql_auth("reader", "hush")
            .with_app_name("a program")
            .with_database("sales")
            .with_hostname("here")
            .with_packet_size(packet)
    }

    #[test]
    fn another_implementation_s_is_read() {
        let read = Login::read(&login(8_000).encode()).expect("a login");
        let ours =
            Login { version: NEWEST, packet: 8_000, database: "sales".into(), program: "a program".into() };
        assert_eq!(read, ours);
        assert!(!format!("{read:?}").contains("hush"));
    }

    #[test]
    fn sizes_are_granted_within_the_protocol_s_bounds() {
        // MS-TDS: 512 to 32,767; 4,096 is its default.
        for (asked, granted) in
            [(0, 4_096), (1, 512), (512, 512), (16_384, 16_384), (32_767, 32_767), (65_536, 32_767)]
        {
            assert_eq!(Login::read(&login(asked).encode()).expect("a login").packet, granted, "{asked}");
        }
    }

    #[test]
    fn old_versions_and_tickets_are_refused() {
        let older = login(0).with_tds_version(TdsVersion::V7_1).encode();
        assert_eq!(Login::read(&older), Err(Refusal::Version { major: 7, minor: 1 }));
        let newer = login(0).with_tds_version(TdsVersion::V7_2).encode();
        assert_eq!(Login::read(&newer).expect("a login").version, OLDEST);
        let ticket = login(0).with_integrated_auth(vec![1, 2, 3]).encode();
        assert_eq!(Login::read(&ticket), Err(Refusal::Integrated));
    }

    #[test]
    fn truncated_login_is_refused() {
        let body = login(0).encode();
        for n in 0..body.len() {
            assert_eq!(Login::read(&body[..n]), Err(Refusal::Torn("login")), "{n} bytes");
        }
    }
}
