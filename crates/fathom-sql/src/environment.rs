//! Variables of the environment.

use std::ffi::OsString;

/// The text of a variable; `None`: it is not set. The error names it, and has nothing of what it holds, which may be a password.
pub(crate) fn text(env: &impl Fn(&str) -> Option<OsString>, name: &str) -> Result<Option<String>, String> {
    let text = env(name).map(OsString::into_string).transpose();
    text.map_err(|_| format!("{name} is not UTF-8; set it anew, or unset it"))
}
