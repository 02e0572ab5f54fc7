//! Proofs that one knows a password.

use crate::{Login, Trouble};
use ring::digest::{Algorithm, SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};

/// How a login is proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plugin {
    /// `mysql_native_password`.
    Native,
    /// `caching_sha2_password`.
    CachingSha2,
    /// `mysql_clear_password`: the password itself, as PAM and LDAP need it.
    Clear,
}

impl Plugin {
    pub(crate) fn of(name: &[u8]) -> Option<Self> {
        match name {
            b"mysql_native_password" => Some(Self::Native),
            b"caching_sha2_password" => Some(Self::CachingSha2),
            b"mysql_clear_password" => Some(Self::Clear),
            _ => None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Native => "mysql_native_password",
            Self::CachingSha2 => "caching_sha2_password",
            Self::Clear => "mysql_clear_password",
        }
    }

    /// The answer to a challenge.
    pub(crate) fn answer(
        self,
        login: &Login,
        challenge: &[u8],
        is_encrypted: bool,
    ) -> Result<Vec<u8>, Trouble> {
        let password = login.password.as_deref().unwrap_or_default().as_bytes();
        // 20 bytes, and mostly a null byte.
        let challenge = &challenge[..challenge.len().min(20)];
        Ok(match self {
            Self::Native if password.is_empty() => Vec::new(),
            Self::Native => {
                scramble(&SHA1_FOR_LEGACY_USE_ONLY, password, |hashed| [challenge, hashed].concat())
            }
            Self::CachingSha2 if password.is_empty() => vec![0],
            Self::CachingSha2 => scramble(&SHA256, password, |hashed| [hashed, challenge].concat()),
            Self::Clear if !is_encrypted => return Err(Trouble::InTheClear),
            Self::Clear if !login.is_checked => return Err(Trouble::Unchecked),
            Self::Clear => [password, b"\0"].concat(),
        })
    }
}

/// `H(password) XOR H(with(H(H(password))))`: "SHA1(password) XOR SHA1(scramble + SHA1(SHA1(password)))", and with SHA-256 the two
/// the other way round (<https://dev.mysql.com/doc/dev/mysql-server/latest/page_caching_sha2_authentication_exchanges.html>).
fn scramble(hash: &'static Algorithm, password: &[u8], with: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let once = digest(hash, password);
    let twice = digest(hash, once.as_ref());
    let mask = digest(hash, &with(twice.as_ref()));
    once.as_ref().iter().zip(mask.as_ref()).map(|(a, b)| a ^ b).collect()
}

/// `caching_sha2_password` where the server does not know the password's hash any more: itself, over TLS alone. Without TLS it would
/// be encrypted with an RSA key that comes over the same path, of which nobody knows whose it is; that is not spoken.
pub(crate) fn itself(login: &Login, is_encrypted: bool) -> Result<Vec<u8>, Trouble> {
    if !is_encrypted {
        return Err(Trouble::InTheClear);
    }
    Ok([login.password.as_deref().unwrap_or_default().as_bytes(), b"\0"].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Wanted;

    /// Of Python's hashlib: h(p) XOR h(challenge + h(h(p))), and h(p) XOR h(h(h(p)) + challenge).
    #[test]
    fn scrambles_are_those_of_another_implementation() {
        let login = Login {
            user: "me".into(),
            password: Some("s3cret-w0rd".into()),
            database: String::new(),
            program: String::new(),
            encryption: Wanted::Nothing,
            is_checked: false,
            several: false,
        };
        let challenge = b"abcdefghijklmnopqrst\0";
        let hex = |plugin: Plugin| {
            let bytes = plugin.answer(&login, challenge, false).unwrap();
            bytes
                .iter()
                .flat_map(|byte| [byte >> 4, byte & 15])
                .map(|half| char::from(b"0123456789abcdef"[usize::from(half)]))
                .collect::<String>()
        };
        assert_eq!(hex(Plugin::Native), "75c1f5689e4a9fc284e804c4119c45e7f85582f1");
        assert_eq!(
            hex(Plugin::CachingSha2),
            "820bcc0cab1b2d0eb0e681790bfa7a263ed2d85e2181d27c11fd71646bb8beec"
        );
    }
}
