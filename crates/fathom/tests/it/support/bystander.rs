//! A thread that does every few milliseconds what a recording does to a directory. What holds it up holds up every recording there:
//! a disk that takes its time, a hypervisor that runs others, memory that has to be found. None of this shows in how long a thread
//! waited for a processor.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_millis(20);
/// A turn that is late by less is as usual.
const USUAL: Duration = Duration::from_millis(10);

pub(crate) struct Bystander {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Duration>,
}

impl Bystander {
    /// Begins in this directory, and leaves nothing in it.
    pub(crate) fn start(dir: &Path) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let (seen, dir) = (Arc::clone(&over), dir.join("bystander"));
        let thread = thread::spawn(move || {
            let (mut held, mut turn) = (Duration::ZERO, Instant::now());
            while !seen.load(Ordering::Relaxed) {
                thread::sleep(EVERY);
                record(&dir);
                let late = turn.elapsed().saturating_sub(EVERY);
                turn = Instant::now();
                held += if late > USUAL { late } else { Duration::ZERO };
            }
            held
        });
        Self { over, thread }
    }

    /// For how long it was held up in all.
    pub(crate) fn held(self) -> Duration {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().expect("a directory that can be written to")
    }
}

/// A recording that begins, a batch of rows, and a file that takes another's place.
fn record(dir: &Path) {
    fs::create_dir(dir).expect("a directory");
    let (new, old) = (dir.join("new"), dir.join("old"));
    let mut file = File::create(&new).expect("a file");
    file.write_all(&[0; 4_096]).expect("room");
    file.sync_all().expect("a disk");
    fs::rename(&new, &old).expect("one directory");
    fs::remove_file(&old).expect("it is there");
    fs::remove_dir(dir).expect("it is empty");
}
