//! `fathom echo`: the reflector of `fathom-reflector`, from arguments.

mod args;
mod config;

use crate::exit::Failure;
use crate::signals;
pub(crate) use args::Args;
use fathom_reflector::Reflector;

/// Serves until it is told to stop or its time is over.
pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let _log = crate::log::start(&args.log)?;
    let reflector = Reflector::open(&config::from_args(args)?)?;
    signals::on_request_to_end(reflector.stopper())?;
    Ok(reflector.run()?)
}
