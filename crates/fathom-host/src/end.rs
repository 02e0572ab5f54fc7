//! Ending jobs: gently first.

use crate::error::Error;
use crate::job::Job;
use crate::process::Identity;
use std::time::{Duration, Instant};

/// How long a job has from SIGTERM to SIGKILL; a probe closes its recording in that time. And from there to its end.
const GRACE: Duration = Duration::from_secs(5);
const STEP: Duration = Duration::from_millis(20);

/// Ends jobs, all of them at once; how many processes that were. Wants the directory's lock: nothing is started meanwhile.
pub(crate) fn end(jobs: &[Job]) -> Result<usize, Error> {
    let mut ended: Vec<Identity> = Vec::new();
    for signal in [Identity::ask_to_end, Identity::kill] {
        let deadline = Instant::now() + GRACE;
        let mut asked: Vec<Identity> = Vec::new();
        loop {
            // Looked at again each time: a program may have begun just now.
            let left: Vec<_> = jobs.iter().flat_map(Job::processes).collect();
            if left.is_empty() {
                return Ok(ended.len());
            }
            for process in left {
                if !asked.contains(&process) {
                    signal(&process)
                        .map_err(|e| Error::run(format!("cannot end process {}: {e}", process.pid)))?;
                    asked.push(process.clone());
                }
                if !ended.contains(&process) {
                    ended.push(process);
                }
            }
            if Instant::now() >= deadline {
                break;
            }
            std::thread::sleep(STEP);
        }
    }
    match jobs.iter().flat_map(Job::processes).next() {
        Some(process) => Err(Error::run(format!("process {} does not end", process.pid))),
        None => Ok(ended.len()),
    }
}
