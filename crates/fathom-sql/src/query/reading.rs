//! Reads what is there of an answer, or waits for it; asks the server to end a query that has taken too long, and ends a batch whose answer
//! was whole.

use super::{Asker, lost};
use crate::error::{Loss, Trouble};
use crate::patience::{Heeded, Patience};
use crate::protocol::Step;
use crate::under_way::{ROOM_EVERY_NS, UnderWay};
use fathom_os::clock::mono_ns;
use std::io;
use std::time::Duration;

/// How long a wait lasts before somebody looks whether the run is to end.
const PATIENCE: Duration = Duration::from_millis(20);
/// Where this side waited for less, the first byte is not read by itself, which takes 1 µs and has the server's kernel answer one more
/// acknowledgement: that it was read late, and how late at most, the scheduler knows.
const SHORT_WAIT_NS: u64 = 250_000;

impl Asker<'_> {
    /// Reads what is there, or waits for it.
    pub(super) fn more(&mut self, run: &mut UnderWay) -> Result<(), Trouble> {
        let now = self.runs(run);
        let is_first = run.waiting_since_ns.is_some();
        let asked_ns = run.waiting_since_ns.unwrap_or(now);
        self.heed(&mut run.patience, now, asked_ns, run.looked_ns)?;
        if !is_first {
            run.note_looks(self.looks.as_deref(), asked_ns, None);
            run.room(self.session.channel(), self.looks.as_deref(), now, ROOM_EVERY_NS);
        }
        let after_pause = run.room_after_pause(self.session.channel());
        match self.session.channel().fill() {
            Ok(filled) if filled.bytes == 0 => return Err(closed()),
            Ok(filled) => {
                run.was_there(&filled, is_first.then_some(asked_ns), after_pause);
                return Ok(());
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => run.waiting_since_ns = Some(asked_ns),
            Err(e) => return Err(lost(&e)),
        }
        let mut woke_ns = now;
        loop {
            let untold = self.looks.as_ref().map(|looks| looks.untold(run.began_ns, woke_ns));
            let at_most = untold.map_or(PATIENCE, |untold| untold.min(PATIENCE));
            let at_most = run.asks_again(woke_ns).map_or(at_most, |again| again.min(at_most));
            let ready = self.session.channel().wait(at_most).map_err(|e| lost(&e))?;
            woke_ns = self.runs(run);
            let channel = self.session.channel();
            let after_pause = ready.then(|| run.room_after_pause(channel)).flatten();
            let is_exact = !run.is_lateness_known || woke_ns.saturating_sub(asked_ns) >= SHORT_WAIT_NS;
            let filled = if !ready {
                Err(io::ErrorKind::WouldBlock.into())
            } else if is_exact {
                channel.fill_after_wait()
            } else {
                // Its last byte came before it was read, and its first before this side woke.
                channel.fill().map(|filled| (filled, filled.came_ns.min(woke_ns)))
            };
            match filled {
                Ok((filled, _)) if filled.bytes == 0 => return Err(closed()),
                Ok((filled, first_ns)) => {
                    // A stamp from before the wait is one of a clock that was set.
                    let came_ns = first_ns.clamp(asked_ns, filled.read_ns);
                    run.note_looks(self.looks.as_deref(), came_ns, Some(asked_ns));
                    run.was_waited_for(&filled, (asked_ns, came_ns), is_exact, after_pause);
                    return Ok(());
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    // Some of what came meanwhile is seen only later.
                    let until_ns = woke_ns.saturating_sub(1_000_000);
                    run.note_looks(self.looks.as_deref(), until_ns, Some(asked_ns));
                    run.note_request(self.session.channel());
                    self.heed(&mut run.patience, woke_ns, asked_ns, run.looked_ns)?;
                }
                Err(e) => return Err(lost(&e)),
            }
        }
    }

    /// Whether to wait on for a server that has said nothing since then; asks it to cancel the query where not.
    pub(super) fn heed(
        &mut self,
        patience: &mut Patience,
        now: u64,
        silent_since_ns: u64,
        looked_ns: u64,
    ) -> Result<(), Trouble> {
        let beside_ns = if patience.is_over(now) { self.heard_beside_ns(looked_ns) } else { 0 };
        match patience.heed(now, silent_since_ns.max(beside_ns)) {
            Heeded::GoOn => match self.session.unasked() {
                Some(error) => Err(patience.unasked(error)),
                None => Ok(()),
            },
            Heeded::Cancel => match self.session.cancel(self.login).map_err(|e| lost(&e))? {
                Some(out) => self.send_all(&out, patience),
                None => Err(patience.uncancelled()),
            },
            Heeded::GiveUp(trouble) => Err(trouble),
        }
    }

    /// When the server, or its host, last answered something beside the query, a look too: it may be asked for what takes long. Not where
    /// it has not even acknowledged what was sent on this connection, which is then dead by itself.
    fn heard_beside_ns(&mut self, looked_ns: u64) -> u64 {
        let is_heard = self.session.channel().info().is_none_or(|info| info.unacked == 0);
        if is_heard { self.beside.heard_ns().max(looked_ns) } else { 0 }
    }

    /// Ends a query whose answer was whole.
    pub(super) fn sync(&mut self, end: &[u8], patience: &mut Patience) -> Result<(), Trouble> {
        self.send_all(end, patience)?;
        let asked_ns = mono_ns();
        loop {
            while let Some(step) = self.session.step(self.config).map_err(|e| lost(&e))? {
                if let Step::Over = step {
                    return Ok(());
                }
            }
            match self.session.channel().fill() {
                Ok(filled) if filled.bytes == 0 => return Err(closed()),
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.session.channel().wait(PATIENCE).map_err(|e| lost(&e))?;
                    self.heed(patience, mono_ns(), asked_ns, 0)?;
                }
                Err(e) => return Err(lost(&e)),
            }
        }
    }
}

fn closed() -> Trouble {
    Trouble::Lost(Loss::Closed)
}
