//! `sslmode` of a URL.

/// Whether the connection is encrypted, and who is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SslMode {
    /// Never.
    Disable,
    /// Where the server can; nothing is checked.
    Prefer,
    /// Always; where a file of roots is there the certificate is checked.
    Require,
    /// Always; the certificate is checked.
    VerifyCa,
    /// Always; the certificate is checked, and that it is of the host's name.
    VerifyFull,
}

impl SslMode {
    /// As `MySQL`'s own clients write it (<https://dev.mysql.com/doc/refman/8.4/en/connection-options.html>).
    pub(crate) fn of_mysql(text: &str) -> Result<Self, String> {
        match text {
            "DISABLED" => Ok(Self::Disable),
            "PREFERRED" => Ok(Self::Prefer),
            "REQUIRED" => Ok(Self::Require),
            "VERIFY_CA" => Ok(Self::VerifyCa),
            "VERIFY_IDENTITY" => Ok(Self::VerifyFull),
            _ => Err(format!(
                "ssl-mode={text}: write DISABLED, PREFERRED, REQUIRED, VERIFY_CA or VERIFY_IDENTITY"
            )),
        }
    }

    /// As libpq writes it. The error names what gives it: `sslmode`, or a variable.
    pub(crate) fn of_libpq(by: &str, text: &str) -> Result<Self, String> {
        match text {
            "disable" => Ok(Self::Disable),
            "prefer" => Ok(Self::Prefer),
            "require" => Ok(Self::Require),
            "verify-ca" => Ok(Self::VerifyCa),
            "verify-full" => Ok(Self::VerifyFull),
            _ => Err(format!("{by}={text}: write disable, prefer, require, verify-ca or verify-full")),
        }
    }
}
