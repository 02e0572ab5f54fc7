//! Writes the log from a thread of its own: a terminal that is held, or a slow disk, must not hold up whoever logs.

use fathom_core::text::{cleaned, count};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

/// Lines that may wait; further ones are counted, and the count is logged in their place.
const WAITING: usize = 16 << 10;
/// How long the end of the process waits for what has been logged.
const FINISH: Duration = Duration::from_secs(2);

#[derive(Debug)]
enum Message {
    Line(Vec<u8>),
    /// Wakes the thread, which checks its flags.
    Look,
    /// Everything before this has been written when it is answered.
    Finish(SyncSender<()>),
}

/// Each write is one line of the log, also where what others say in it has ends of lines of its own.
#[derive(Debug, Clone)]
pub(super) struct Writer {
    lines: SyncSender<Message>,
    shared: Arc<Shared>,
}

/// State for the writing thread, outside of its queue.
#[derive(Debug, Default)]
struct Shared {
    lost: AtomicU64,
    reopen: AtomicBool,
}

/// Opens the file of the log again.
type Open = dyn Fn() -> io::Result<Box<dyn Write + Send>> + Send;

impl Writer {
    /// `open`: opens the file again after a rotation; `None`: the log goes to a terminal or a pipe.
    pub(super) fn start(
        out: Box<dyn Write + Send>,
        open: Option<impl Fn() -> io::Result<Box<dyn Write + Send>> + Send + 'static>,
    ) -> io::Result<Self> {
        let (lines, waiting) = sync_channel(WAITING);
        let shared = Arc::new(Shared::default());
        let told = Arc::clone(&shared);
        let open: Option<Box<Open>> = open.map(|open| Box::new(open) as Box<Open>);
        let thread = std::thread::Builder::new().name("log".into());
        thread.spawn(move || write(out, open.as_deref(), &waiting, &told))?;
        Ok(Self { lines, shared })
    }

    /// Reopens the file; earlier lines stay in the old one.
    pub(super) fn reopen(&self) {
        self.shared.reopen.store(true, Ordering::SeqCst);
        // If the queue is full, the thread has lines to write, and checks the flag before each.
        let _ = self.lines.try_send(Message::Look);
    }

    /// Waits until what was logged so far is written, but not for ever.
    pub(super) fn finish(&self) {
        let until = Instant::now() + FINISH;
        let (tell, written) = sync_channel(1);
        let mut finish = Message::Finish(tell);
        // A queue that is full is waited for, too; a thread that has ended leaves nothing to wait for.
        while let Err(TrySendError::Full(full)) = self.lines.try_send(finish) {
            if Instant::now() >= until {
                return;
            }
            finish = full;
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = written.recv_timeout(until.saturating_duration_since(Instant::now()));
    }
}

impl Write for Writer {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Err(TrySendError::Full(_)) = self.lines.try_send(Message::Line(line.to_owned())) {
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Without anything that begins another line, or that a terminal obeys.
fn one_line(line: &[u8]) -> String {
    let line = String::from_utf8_lossy(line);
    match line.strip_suffix('\n') {
        Some(text) => format!("{}\n", cleaned(text)),
        None => cleaned(&line).into_owned(),
    }
}

/// Where nobody can read the log any more, there is nothing better to do than to go on without.
fn write(mut out: Box<dyn Write + Send>, open: Option<&Open>, waiting: &Receiver<Message>, shared: &Shared) {
    for message in waiting {
        if let Some(open) = open
            && shared.reopen.swap(false, Ordering::SeqCst)
        {
            let _ = out.flush();
            match open() {
                Ok(anew) => out = anew,
                Err(e) => _ = writeln!(out, "(the log cannot be reopened: {e}; it goes on here)"),
            }
        }
        let gone = shared.lost.swap(0, Ordering::Relaxed);
        if gone > 0 {
            let lines = count(gone, "line");
            let _ = writeln!(out, "({lines} of the log lost here: it is not written as fast as it grows)");
        }
        match message {
            Message::Look => {}
            Message::Line(line) => _ = out.write_all(one_line(&line).as_bytes()),
            Message::Finish(tell) => {
                let _ = out.flush();
                let _ = tell.send(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Mutex, mpsc};

    /// Writes nothing before it is let go.
    struct Held(Receiver<()>, Arc<Mutex<Vec<u8>>>);

    impl Write for Held {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            self.1.lock().expect("the text").extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The error of a server had a line of its own in the log.
    #[test]
    fn what_others_say_begins_no_line() {
        assert_eq!(
            one_line(b"cancel error=no\n2026-11-26 all is well\x1b[1m\n"),
            "cancel error=no 2026-11-26 all is well\u{fffd}[1m\n"
        );
    }

    #[test]
    fn blocked_terminal_drops_and_counts_lines() {
        let (hold, held) = mpsc::channel();
        let text = Arc::new(Mutex::new(Vec::new()));
        let no_file = None::<fn() -> io::Result<Box<dyn Write + Send>>>;
        let out = Box::new(Held(held, Arc::clone(&text)));
        let mut writer = Writer::start(out, no_file).expect("a thread");
        let lines = 2 * WAITING;
        for i in 0..lines {
            writer.write_all(format!("line {i}\n").as_bytes()).expect("never waits");
        }
        drop(hold);
        writer.finish();
        writer.write_all(b"the last\n").expect("never waits");
        writer.finish();
        let text = String::from_utf8(text.lock().expect("the text").clone()).expect("text");
        let written = text.lines().filter(|line| line.starts_with("line ")).count();
        let told: usize = text
            .lines()
            .filter_map(|line| line.strip_prefix('(')?.split(' ').next()?.parse::<usize>().ok())
            .sum();
        assert_eq!(written + told, lines, "every line is written or counted");
        assert!(told > 0 && text.ends_with("the last\n"));
    }
    #[test]
    fn rotated_log_goes_on_in_new_file() {
        let home = tempfile::tempdir().expect("a directory");
        let (path, old) = (home.path().join("log"), home.path().join("log.1"));
        let open = {
            let path = path.clone();
            move || -> io::Result<Box<dyn Write + Send>> {
                Ok(Box::new(std::fs::OpenOptions::new().create(true).append(true).open(&path)?))
            }
        };
        let mut writer = Writer::start(open().expect("a file"), Some(open)).expect("a thread");
        writer.write_all(b"one\n").expect("never waits");
        writer.finish();
        std::fs::rename(&path, &old).expect("rotated");
        writer.reopen();
        writer.write_all(b"two\n").expect("never waits");
        writer.finish();
        let read = |path: &std::path::Path| std::fs::read_to_string(path).expect("a log");
        assert_eq!((read(&old), read(&path)), ("one\n".to_owned(), "two\n".to_owned()));
    }
}
