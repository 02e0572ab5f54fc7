//! SCRAM-SHA-256 in a login (RFC 5802, RFC 7677): each end proves to the other that it knows the password. `postgres-protocol` works the
//! proofs out; that none is left out is seen to here.

use super::refused::{refused_by_scram, senseless, unproven};
use crate::Error;
use crate::login::Login;
use postgres_protocol::authentication::sasl::{ChannelBinding, ScramSha256};

/// How far it is.
#[derive(Default)]
pub(super) enum Scram {
    /// The server has not asked for it.
    #[default]
    Unasked,
    Begun(ScramSha256),
    /// The server knows the password too.
    Proven,
}

impl Scram {
    /// Whether the server has asked for no such login: it may ask for another one.
    pub(super) fn is_unasked(&self) -> bool {
        matches!(self, Self::Unasked)
    }

    /// Whether the server has proved that it knows the password.
    pub(super) fn is_proven(&self) -> bool {
        matches!(self, Self::Proven)
    }

    /// Whether the server still has to prove that it knows the password.
    pub(super) fn is_owed(&self) -> bool {
        matches!(self, Self::Begun(_))
    }

    /// The client's first message.
    pub(super) fn begin(&mut self, password: &[u8]) -> Vec<u8> {
        let scram = ScramSha256::new(password, ChannelBinding::unsupported());
        let message = scram.message().to_vec();
        *self = Self::Begun(scram);
        message
    }

    /// The client's proof, for the server's first message.
    pub(super) fn prove(&mut self, login: &Login, message: &[u8]) -> Result<Vec<u8>, Error> {
        if let Some(why) = server_error(message) {
            return Err(refused_by_scram(login, &why));
        }
        let Self::Begun(scram) = self else {
            return Err(senseless(login, "SCRAM goes on though it has not begun, or is over"));
        };
        scram
            .update(message)
            .map_err(|e| senseless(login, &format!("the server's first message of SCRAM: {e}")))?;
        Ok(scram.message().to_vec())
    }

    /// Checks the server's proof.
    pub(super) fn check(&mut self, login: &Login, message: &[u8]) -> Result<(), Error> {
        if let Some(why) = server_error(message) {
            return Err(refused_by_scram(login, &why));
        }
        let Self::Begun(scram) = self else {
            return Err(senseless(login, "SCRAM ends though it has not begun, or is over"));
        };
        scram
            .finish(message)
            .map_err(|e| unproven(login, &format!("its signature within SCRAM is wrong ({e})")))?;
        *self = Self::Proven;
        Ok(())
    }
}

/// `server-error` (RFC 5802, section 7).
fn server_error(message: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(message);
    text.strip_prefix("e=").map(|value| value.split(',').next().unwrap_or(value).to_owned())
}
