//! `--resume DIR`: what an earlier search knows, from its recording.

use super::args::Config;
use crate::exit::Failure;
use crate::output::tell;
use fathom_core::limits::AnyRecorded;
use fathom_core::text::count;
use fathom_recording::Recording;

/// What was known when it broke off or was stopped; nothing, where no search is to be resumed.
pub(super) fn earlier(config: &Config) -> Result<AnyRecorded, Failure> {
    let Some(dir) = &config.resume else { return Ok(AnyRecorded::default()) };
    let name = dir.display();
    let failed = |e: fathom_recording::Error| Failure::usage(format!("--resume {name}: {e}"));
    let recording = Recording::open(dir).map_err(failed)?;
    let (earlier, damage) = recording.search().map_err(failed)?;
    for unreadable in damage {
        tell!("fathom: {name}: {unreadable}");
    }
    let of = &recording.manifest().reflector.address;
    if let Some(why) = earlier.why_not(of, config.limit, config.rate, &config.settings) {
        return Err(Failure::usage(format!("cannot resume {name}: {why}")));
    }
    if !config.quiet {
        let steps = earlier.rate.steps().len() as u64;
        match config.rate {
            Some(_) => tell!("{} by the search in {name}", count(steps, "step")),
            None => tell!("{} by the search in {name}", earlier.lengths.in_words()),
        }
    }
    Ok(earlier)
}
