//! The cookie that ties the connections of one test together.

/// Bytes of a cookie: 36 characters and a NUL.
pub const COOKIE_LEN: usize = 37;

/// What ties the connections of one test together: 36 characters of `a-z2-7`, and a NUL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cookie([u8; COOKIE_LEN]);

impl Cookie {
    /// A cookie of these random numbers.
    pub fn new(random: [u64; 4]) -> Self {
        const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
        let mut bytes = [0; COOKIE_LEN];
        for (i, byte) in bytes[..COOKIE_LEN - 1].iter_mut().enumerate() {
            // Nine letters of five bits from each number.
            *byte = LETTERS[(random[i / 9] >> (5 * (i % 9))) as usize & 31];
        }
        Self(bytes)
    }

    /// The cookie in these bytes; none: they are no text that ends with a NUL, so whoever sent them is no client.
    pub fn decode(bytes: &[u8; COOKIE_LEN]) -> Option<Self> {
        let (text, end) = bytes.split_at(COOKIE_LEN - 1);
        (end == [0] && text.iter().all(u8::is_ascii_graphic)).then_some(Self(*bytes))
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8; COOKIE_LEN] {
        &self.0
    }
}
