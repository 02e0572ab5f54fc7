//! Writes the log from a thread of its own: a terminal that is held, or a slow disk, must not hold up whoever logs.

use fathom_core::text::{cleaned, count};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

/// Lines that may wait; further ones are counted, and the count is logged in their place.
const WAITING: usize = 16 << 10;
/// How long the end of the process waits for what has been logged.
const FINISH: Duration = Duration::from_secs(2);

#[derive(Debug)]
enum Message {
    Line(Vec<u8>),
    /// Everything before this has been written when it is answered.
    Finish(SyncSender<()>),
}

/// Each write is one line of the log, also where what others say in it has ends of lines of its own.
#[derive(Debug, Clone)]
pub(super) struct Writer {
    lines: SyncSender<Message>,
    lost: Arc<AtomicU64>,
}

impl Writer {
    pub(super) fn start(out: Box<dyn Write + Send>) -> io::Result<Self> {
        let (lines, waiting) = sync_channel(WAITING);
        let lost = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&lost);
        std::thread::Builder::new().name("log".into()).spawn(move || write(out, &waiting, &count))?;
        Ok(Self { lines, lost })
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
            self.lost.fetch_add(1, Ordering::Relaxed);
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
fn write(mut out: Box<dyn Write + Send>, waiting: &Receiver<Message>, lost: &AtomicU64) {
    for message in waiting {
        let gone = lost.swap(0, Ordering::Relaxed);
        if gone > 0 {
            let lines = count(gone, "line");
            let _ = writeln!(out, "({lines} of the log lost here: it is not written as fast as it grows)");
        }
        match message {
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
        let mut writer = Writer::start(Box::new(Held(held, Arc::clone(&text)))).expect("a thread");
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
}
