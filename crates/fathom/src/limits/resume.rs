//! `--resume DIR`: what an earlier search knows, from its recording.

use super::args::Config;
use crate::exit::Failure;
use crate::output::tell;
use fathom_core::limits::{Limit, Recorded};
use fathom_core::text::count;
use fathom_core::units::duration_text;
use fathom_recording::Recording;
use std::path::Path;

/// What was known when it broke off or was stopped; nothing, where no search is to be resumed.
pub(super) fn earlier(config: &Config) -> Result<Recorded, Failure> {
    let Some(dir) = &config.resume else { return Ok(Recorded::default()) };
    let failed = |e: fathom_recording::Error| Failure::run(e.to_string());
    let recording = Recording::open(dir).map_err(failed)?;
    let (earlier, damage) = recording.search().map_err(failed)?;
    for unreadable in damage {
        tell!("fathom: {}: {unreadable}", dir.display());
    }
    check(config, dir, &recording.manifest().reflector.address, &earlier)?;
    if !config.quiet {
        tell!("{} judged by the search in {}", count(earlier.judged(), "connection"), dir.display());
    }
    Ok(earlier)
}

/// Whether it was a search for the same, that did not come to its end.
fn check(config: &Config, dir: &Path, target: &str, earlier: &Recorded) -> Result<(), Failure> {
    let refused = |why: String| Err(Failure::usage(format!("cannot resume {}: {why}", dir.display())));
    if earlier.judged() == 0 {
        return refused("it holds nothing that a search for limits knew; leave out --resume".to_owned());
    }
    if earlier.is_settled() {
        return refused(format!(
            "its search came to its end; see it with `fathom recording summary {}`",
            dir.display()
        ));
    }
    if target != config.target.to_string() {
        return refused(format!("it was a search of {target}, not of {}", config.target));
    }
    let (was, is) = (earlier.limit() == Limit::Age, config.limit == Limit::Age);
    if was != is {
        let how = if was { "give --age too" } else { "leave out --age" };
        return refused(format!("it was a search for the {} limit; {how}", if was { "age" } else { "idle" }));
    }
    if earlier.keepalive_ns() != config.settings.keepalive_ns {
        let how = earlier.keepalive_ns().map_or_else(
            || "it sent no keepalives; leave out --keepalive".to_owned(),
            |ns| format!("it sent keepalives; give --keepalive {} too", duration_text(ns)),
        );
        return refused(how);
    }
    Ok(())
}
