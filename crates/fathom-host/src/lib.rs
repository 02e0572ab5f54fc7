//! A study's side on a host that is reached over SSH. The study's runner copies the binary there and calls
//! `fathom host answer`, once for each question; what it starts outlives the call and the connection.
//!
//! # One call
//!
//! Standard input has one line of JSON, the request. Standard output has the answer: lines of JSON, each an object whose
//! `is` says what it is. The call ends with exit code
//!
//! | code | last line | meaning |
//! |---|---|---|
//! | 0 | `{"is":"end"}` | all was answered |
//! | 1 | `{"is":"error","message":"…"}` | it could not be done, as the message says |
//! | 2 | `{"is":"error","message":"…"}` | the request is not understood |
//!
//! An answer without `end` or `error` as its last line was cut. What stands before the first line,
//! `{"is":"fathom-host","format":1}`, was said by the login shell.
//!
//! # Requests
//!
//! `{"format":1,"study":"…","host":"…","ask":{"verb":"…",…}}`. `study` is the study's id, `host` the host's name in the
//! study: two hosts of a study may be one machine.
//!
//! | verb, with its fields | lines of the answer | what it does |
//! |---|---|---|
//! | `hello` | `job` for each job | makes the study's directory |
//! | `start`, `job`, `limit_s`, `argv` | `started` | runs this binary with these arguments. A job that was started already is left as it is: the answer to that call may have been lost |
//! | `look`, `job`, `budget`, `want` | `state`, `file` for each file, `piece`s | `want` is a list of `[name, offset]`; `budget` bytes at most come in all |
//! | `said`, `job` | `piece`s named `out` and `err` | the last 512 KiB of each output |
//! | `sums`, `job` | `sum` for each file | |
//! | `drop`, `job` | | ends the job if it runs, and removes it |
//! | `clear` | `cleared` | ends and removes everything that the study has on this host |
//!
//! # Lines
//!
//! | `is` | fields |
//! |---|---|
//! | `job` | `name`, and those of a state |
//! | `state` | those of a state |
//! | `started` | `age_s`, and those of a state |
//! | `file` | `name`, `inode`, `size`, `modified_ns` (since 1970, by the host's clock) |
//! | `piece` | those of `file`, `offset`, `length`; the next `length` bytes are the file's, and then comes the next line |
//! | `sum` | `name`, `sha256` |
//! | `cleared` | `processes`: how many were ended |
//!
//! A state is `{"state":"running"}`, `{"state":"exited","code":N}`, `{"state":"killed","signal":N}`,
//! `{"state":"expired"}` (its time was over) or `{"state":"lost"}` (it ended and left no word, as its host was restarted
//! or its supervisor killed).
//!
//! # What `start` starts
//!
//! `fathom host supervise DIRECTORY LIMIT_S -- ARGV...` in a session of its own: it passes SIGTERM, SIGINT and SIGHUP on to its
//! program as SIGTERM, asks it to end when its time is over (and ends it 10 s later), and leaves word of how it ended. Below
//! it `fathom host become DIRECTORY SUPERVISOR -- ARGV...` leaves word of itself and becomes the program, which is asked to
//! end when its supervisor does, however that happens. Nobody else calls these two.
//!
//! # On disk
//!
//! Everything is in `~/.fathom/studies/STUDY/HOST`: the file `lock`, and in `jobs` a directory for each job with
//!
//! | file | what |
//! |---|---|
//! | `supervisor`, `program` | which processes these are: number, start time and boot ([`process::Identity`]); each wrote it of itself |
//! | `out`, `err` | what the program wrote |
//! | `reserve` | room for `ended` on a disk that is full |
//! | `ended` | the state that it ended with |
//! | `rec` | a probe's recording; the program runs in the job's directory, and `argv` says `rec` |
//!
//! Processes are known by what they recorded of themselves and by nothing else. A mark in an environment or in a command
//! line is also borne by the runner's own `ssh`, which may be a process of the same machine.

#![cfg(target_os = "linux")]

mod answer;
mod directory;
mod end;
mod error;
mod job;
pub mod process;
mod request;
mod serve;
mod state;
mod supervise;

pub use error::Error;
pub use serve::answer;
pub use supervise::{become_program, supervise};
