//! Answers one request.

use crate::answer::{Answer, Line, Seen};
use crate::directory::Directory;
use crate::end::end;
use crate::error::Error;
use crate::job::{Job, open_plain, read_from};
use crate::request::{self, Ask, FileName, LONGEST_REQUEST};
use crate::state::State;
use crate::supervise::{command, uptime_s};
use ring::digest::{Context, SHA256};
use std::fs::File;
use std::io::{self, BufRead, Read, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// What `said` gives of each output.
const MOST_SAID: u64 = 512 << 10;
/// How long a supervisor may take from its start to its first word.
const PATIENCE: Duration = Duration::from_secs(20);
const STEP: Duration = Duration::from_millis(5);

/// Reads a request, does what it asks for in this home, and writes the answer; the exit code. An error here is one of
/// writing the answer: whoever asked has gone.
pub fn answer(home: &Path, from: impl Read, to: &mut impl Write) -> io::Result<u8> {
    // What is made here is nobody else's to read.
    rustix::process::umask(rustix::fs::Mode::from_bits_truncate(0o077));
    let mut buffered = io::BufWriter::with_capacity(64 << 10, to);
    let mut answer = Answer::begin(&mut buffered)?;
    let done = read(from).and_then(|request| {
        let directory = Directory::new(home, request.study, request.host);
        reply(&directory, &request.ask, &mut answer)
    });
    match done {
        Ok(()) => answer.end(&Line::End {}).map(|()| 0),
        Err(error) => {
            answer.end(&Line::Error { message: &error.to_string() })?;
            Ok(error.code())
        }
    }
}

fn read(from: impl Read) -> Result<request::Request, Error> {
    let mut line = Vec::new();
    let mut limited = io::BufReader::new(from.take(LONGEST_REQUEST));
    limited.read_until(b'\n', &mut line).map_err(|e| Error::Request(e.to_string()))?;
    if line.pop() != Some(b'\n') {
        return Err(Error::Request(format!("it is no line, or longer than {LONGEST_REQUEST} bytes")));
    }
    request::read(&line)
}

fn reply(directory: &Directory, ask: &Ask, answer: &mut Answer<'_>) -> Result<(), Error> {
    match ask {
        Ask::Hello {} => hello(directory, answer),
        Ask::Start { job, limit_s, argv } => {
            directory.make()?;
            let _lock = directory.lock()?;
            start(&directory.job(job), *limit_s, argv, answer)
        }
        Ask::Look { job, budget, want } => look(&directory.job(job), *budget, want, answer),
        Ask::Said { job } => said(&directory.job(job), answer),
        Ask::Sums { job } => sums(&directory.job(job), answer),
        Ask::Drop { job } => {
            let Some(_lock) = directory.lock()? else { return Ok(()) };
            let job = directory.job(job);
            end(std::slice::from_ref(&job))?;
            job.remove()
        }
        Ask::Clear {} => {
            let _lock = directory.lock()?;
            let jobs: Vec<Job> = directory.jobs()?.into_iter().map(|(_, job)| job).collect();
            let processes = end(&jobs)?;
            directory.remove()?;
            tell(answer.line(&Line::Cleared { processes }))
        }
    }
}

/// An answer that cannot be written is an error of the call.
fn tell(written: io::Result<()>) -> Result<(), Error> {
    written.map_err(|e| Error::run(format!("cannot answer: {e}")))
}

fn hello(directory: &Directory, answer: &mut Answer<'_>) -> Result<(), Error> {
    directory.make()?;
    for (name, job) in directory.jobs()? {
        tell(answer.line(&Line::Job { name: name.as_str(), state: job.state() }))?;
    }
    Ok(())
}

fn start(job: &Job, limit_s: u64, argv: &[String], answer: &mut Answer<'_>) -> Result<(), Error> {
    if job.make()? {
        let mut supervisor = match supervisor_of(job, limit_s, argv) {
            Ok(supervisor) => supervisor,
            Err(error) => {
                // Nothing has begun: who asks again is not told that it has.
                job.remove()?;
                return Err(error);
            }
        };
        let deadline = Instant::now() + PATIENCE;
        // It leaves word of itself at once, or it ends.
        while job.supervisor().is_none() && Instant::now() < deadline {
            if supervisor.try_wait().is_ok_and(|ended| ended.is_some()) && job.supervisor().is_none() {
                let mut words = String::new();
                if let Some(stderr) = supervisor.stderr.take() {
                    let _ = stderr.take(MOST_SAID).read_to_string(&mut words);
                }
                job.remove()?;
                return Err(Error::run(format!("the supervisor ended at once: {}", words.trim())));
            }
            std::thread::sleep(STEP);
        }
    }
    let began_s = job.supervisor().map(|word| word.began_s);
    let age_s = began_s.map_or(0, |began_s| uptime_s().saturating_sub(began_s));
    tell(answer.line(&Line::Started { age_s, state: job.state() }))
}

fn supervisor_of(job: &Job, limit_s: u64, argv: &[String]) -> Result<Child, Error> {
    command("supervise")?
        .arg(job.path())
        .arg(limit_s.to_string())
        .arg("--")
        .args(argv)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| Error::run(format!("cannot start a supervisor: {e}")))
}

fn look(job: &Job, budget: u64, want: &[(FileName, u64)], answer: &mut Answer<'_>) -> Result<(), Error> {
    // The state first: what is listed after the end is the whole.
    let state: State = job.state();
    tell(answer.line(&Line::State(state)))?;
    for (name, metadata) in job.recorded() {
        tell(answer.line(&Line::File(Seen::new(&name, &metadata))))?;
    }
    let mut left = budget;
    for (name, offset) in want {
        let path = job.file("rec").join(name.as_str());
        // Of the open file: the name may be another file's a moment later.
        if let Some((file, metadata)) = open_plain(&path) {
            let length = metadata.len().saturating_sub(*offset).min(left);
            let bytes = read_from(&file, *offset, length).map_err(Error::path("read", &path))?;
            left -= bytes.len() as u64;
            tell(answer.piece(Seen::new(name.as_str(), &metadata), *offset, &bytes))?;
        }
    }
    Ok(())
}

fn said(job: &Job, answer: &mut Answer<'_>) -> Result<(), Error> {
    for name in ["out", "err"] {
        let path = job.file(name);
        if let Some((file, metadata)) = open_plain(&path) {
            let offset = metadata.len().saturating_sub(MOST_SAID);
            let bytes = read_from(&file, offset, MOST_SAID).map_err(Error::path("read", &path))?;
            tell(answer.piece(Seen::new(name, &metadata), offset, &bytes))?;
        }
    }
    Ok(())
}

fn sums(job: &Job, answer: &mut Answer<'_>) -> Result<(), Error> {
    for (name, _) in job.recorded() {
        let path = job.file("rec").join(&name);
        if let Some((file, _)) = open_plain(&path) {
            let sha256 = sum(file).map_err(Error::path("read", &path))?;
            tell(answer.line(&Line::Sum { name: &name, sha256: &sha256 }))?;
        }
    }
    Ok(())
}

fn sum(mut file: File) -> io::Result<String> {
    use std::fmt::Write as _;
    let mut context = Context::new(&SHA256);
    let mut block = vec![0; 64 << 10];
    loop {
        match file.read(&mut block)? {
            0 => break,
            length => context.update(&block[..length]),
        }
    }
    Ok(context.finish().as_ref().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}
